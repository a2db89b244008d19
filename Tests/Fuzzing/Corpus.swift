// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import WidgetModel

/// Valid documents from which inputs are made: every example of the schemas, and the sample manifests.
package struct Corpus: Sendable {
    /// Data of an event, with its type.
    package struct Event: Sendable {
        package let type: String
        package let data: [UInt8]
    }

    package private(set) var events: [Event] = []
    /// Documents by the name of their schema without its endings, such as `timelines.response`.
    package private(set) var provider: [String: [[UInt8]]] = [:]
    package private(set) var manifests: [[UInt8]] = []

    /// - Parameter root: Path of the repository.
    package init(root: String) throws {
        for name in try Self.files(in: "\(root)/schemas/events") {
            let type = String(name.dropLast(".schema.json".count))
            for example in try Self.examples(of: "\(root)/schemas/events/\(name)") {
                events.append(Event(type: type, data: example))
            }
        }
        for name in try Self.files(in: "\(root)/schemas/provider") {
            let schema = String(name.dropLast(".schema.json".count))
            provider[schema] = try Self.examples(of: "\(root)/schemas/provider/\(name)")
        }
        for name in try Self.files(in: "\(root)/deploy/samples") where name.hasSuffix(".yaml") {
            manifests.append(try Self.read("\(root)/deploy/samples/\(name)"))
        }
    }

    private static func files(in folder: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder).sorted()
    }

    private static func read(_ path: String) throws -> [UInt8] {
        Array(try Data(contentsOf: URL(fileURLWithPath: path)))
    }

    private static func examples(of path: String) throws -> [[UInt8]] {
        guard case .object(let schema) = try JSONValue.parse(read(path)),
            case .array(let examples)? = schema["examples"]
        else { return [] }
        return examples.map(\.encoded)
    }
}
