// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import TestSupport
import Testing
import WidgetModel

@testable import FreshetService

/// Documents of `schemas/`.
enum ContractFiles {
    static let folder = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "schemas")

    struct Unresolved: Error, CustomStringConvertible {
        let description: String
    }

    /// Returns a YAML document as JSON.
    static func yaml(_ path: String) throws -> JSONValue {
        let text = try String(contentsOf: folder.appending(path: path), encoding: .utf8)
        let outcome = LocatedYAML.read(text, file: path)
        try #require(outcome.problems.isEmpty, "\(outcome.problems)")
        try #require(outcome.documents.count == 1)
        return outcome.documents[0].json
    }

    /// Returns the value with its references resolved: `#/…` in the document, or a file of `schemas/`.
    static func resolved(_ value: JSONValue, in document: JSONValue, depth: Int = 0) throws -> JSONValue {
        guard depth < 64 else { throw Unresolved(description: "references go in circles") }
        switch value {
        case .array(let elements):
            return .array(try elements.map { try resolved($0, in: document, depth: depth + 1) })
        case .object(var object):
            if let reference = object["$ref"]?.stringValue {
                guard object.keys.allSatisfy({ ["$ref", "description", "summary"].contains($0) }) else {
                    throw Unresolved(description: "\(reference) has members beside it, which tools ignore")
                }
                return try target(of: reference, in: document, depth: depth + 1)
            }
            for key in object.keys {
                if let member = object[key] {
                    object[key] = try resolved(member, in: document, depth: depth + 1)
                }
            }
            return .object(object)
        default:
            return value
        }
    }

    private static func target(of reference: String, in document: JSONValue, depth: Int) throws -> JSONValue {
        let parts = reference.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false)
        let document = parts[0].hasPrefix("./") ? try SchemaCheck.schema(String(parts[0].dropFirst(2))) : document
        var value = document
        let pointer = parts.count > 1 ? parts[1] : ""
        guard parts[0].hasPrefix("./") || pointer.hasPrefix("/") else { throw Unresolved(description: reference) }
        for name in pointer.split(separator: "/") {
            let key = String(name.replacing("~1", with: "/").replacing("~0", with: "~"))
            guard let member = value[key] else { throw Unresolved(description: "\(reference) names nothing") }
            value = member
        }
        return try resolved(value, in: document, depth: depth)
    }
}
