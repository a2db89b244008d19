// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import WidgetAPI
package import WidgetModel

/// An app with its kinds, which is a YAML document of a manifest.
package struct Manifest: Sendable {
    package var definition: AppDefinition
    package var signingSecret: SigningSecret?
}

extension [Manifest] {
    /// Signing secrets by app.
    package var secrets: [String: [UInt8]] {
        Dictionary(compactMap { app in app.signingSecret.map { (app.definition.name, $0.bytes) } }) { $1 }
    }
}

/// All problems of a manifest, in the order of the file.
package struct ManifestError: Error, Sendable, CustomStringConvertible {
    package let problems: [FileProblem]

    init(problems: [FileProblem]) {
        self.problems = problems.enumerated().sorted { left, right in
            let (one, other) = (left.element.location ?? (0, 0), right.element.location ?? (0, 0))
            return (one.line, one.column, left.offset) < (other.line, other.column, right.offset)
        }.map(\.element)
    }

    package var description: String {
        problems.map(\.description).joined(separator: "\n")
    }
}

extension Manifest {
    /// Reads and checks the manifest of apps at `path`; blocks while it reads.
    ///
    /// - Parameter environment: variables with signing secrets.
    package static func read(path: String, environment: [String: String]) throws(ManifestError) -> [Manifest] {
        let text: String
        do {
            text = try String(file: path, maximumBytes: LocatedYAML.maximumBytes)
        } catch {
            throw ManifestError(problems: [FileProblem(file: path, message: error.message)])
        }
        let folder = URL(fileURLWithPath: path).deletingLastPathComponent().path
        return try read(text: text, file: path, folder: folder, environment: environment)
    }

    /// - Parameter followsSecrets: whether signing secrets are read from their places.
    package static func read(
        text: String, file: String, folder: String = ".", environment: [String: String] = [:],
        followsSecrets: Bool = true
    ) throws(ManifestError) -> [Manifest] {
        let yaml = LocatedYAML.read(text, file: file)
        var problems = yaml.problems
        func report(
            _ document: LocatedYAML, _ tokens: [String], _ message: String, expected: String? = nil, atKey: Bool = false
        ) {
            let (key, value, path) = document.place(of: tokens)
            problems.append(
                FileProblem(
                    file: file, location: atKey ? key : value, path: path, message: message, expectation: expected))
        }
        var manifests: [Manifest] = []
        var lines: [String: Int] = [:]
        // A trailing `---` leaves an empty document.
        for document in yaml.documents where document.json != .null || yaml.documents.count == 1 {
            var secret: SigningSecret?
            do throws(FileProblem) {
                secret = try SigningSecret(
                    named: document.json["signingSecret"], environment: environment, folder: folder,
                    isFollowed: followsSecrets)
            } catch {
                report(document, ["signingSecret"], error.message, expected: error.expectation)
            }
            // The model has the rules; here its errors get their lines.
            let (validated, errors) = AppDefinition.validate(manifest: document.json)
            for error in errors {
                report(document, JSONPointer(error.pointer)?.tokens ?? [], error.message, atKey: true)
            }
            guard let definition = validated else { continue }
            if let first = lines[definition.name] {
                report(
                    document, ["app"], "\"\(definition.name)\" is already declared at line \(first)",
                    expected: "one document for each app", atKey: true)
            } else {
                lines[definition.name] = document.place(of: []).key.line
                manifests.append(Manifest(definition: definition, signingSecret: secret))
            }
        }
        if yaml.documents.isEmpty, problems.isEmpty {
            problems.append(
                FileProblem(file: file, message: "the file is empty", expectation: "a mapping with app and kinds"))
        }
        guard problems.isEmpty else { throw ManifestError(problems: problems) }
        return manifests
    }
}

extension SigningSecret {
    /// Reads the secret whose place a manifest names; nil if it names none, or if the place is not followed.
    ///
    /// - Throws: a problem, which does not contain the secret.
    fileprivate init?(
        named value: JSONValue?, environment: [String: String], folder: String, isFollowed: Bool
    ) throws(FileProblem) {
        guard let value, value != .null else { return nil }
        let expected = "{environment: NAME} or {file: path}"
        guard let members = value.objectValue?.members else {
            // The value may be the secret itself, which must not be repeated in a message.
            throw FileProblem(
                file: "", message: "the secret itself does not belong in a manifest", expectation: expected)
        }
        switch (members.count, members.first?.key, members.first?.value) {
        case (1, "environment", .string(let name)):
            guard isFollowed else { return nil }
            try self.init(variable: name, of: environment)
        case (1, "file", .string(let file)):
            guard isFollowed else { return nil }
            try self.init(file: file, in: folder)
        default:
            throw FileProblem(file: "", message: "does not name exactly one place", expectation: expected)
        }
    }

    /// Reads the secret in an environment variable.
    ///
    /// - Throws: a problem, which does not contain the secret.
    init(variable name: String, of environment: [String: String]) throws(FileProblem) {
        let place = "the environment variable \(name)"
        guard let text = environment[name], !text.isEmpty else {
            throw FileProblem(file: name, message: "\(place) is not set", expectation: SigningSecret.form)
        }
        try self.init(text, in: place, named: name)
    }

    /// Reads the secret in a file. Relative paths start at `folder`.
    ///
    /// - Throws: a problem, which does not contain the secret.
    package init(file path: String, in folder: String) throws(FileProblem) {
        let url = URL(fileURLWithPath: path, relativeTo: URL(fileURLWithPath: folder, isDirectory: true))
        let text: String
        do throws(CommandFailure) {
            text = try String(file: url.path, maximumBytes: 4096)
        } catch {
            throw FileProblem(file: path, message: error.message)
        }
        try self.init(text, in: "the file \(path)", named: path)
    }

    /// Reads a file with a secret.
    package init(file path: String) throws(CommandFailure) {
        do throws(FileProblem) {
            try self.init(file: path, in: FileManager.default.currentDirectoryPath)
        } catch {
            throw CommandFailure(.failure, error.message + (error.expectation.map { "; expected \($0)" } ?? ""))
        }
    }

    private init(_ text: String, in place: String, named name: String) throws(FileProblem) {
        guard let secret = SigningSecret(text) else {
            throw FileProblem(file: name, message: "\(place) holds no signing secret", expectation: SigningSecret.form)
        }
        self = secret
    }
}

extension Manifest {
    /// Reads the definitions of a manifest that is compared and not applied.
    ///
    /// References to secrets are not followed, so that nobody can find out whether a file or a variable exists.
    static func definitions(of text: String) throws -> [AppDefinition] {
        // Nested aliases grow exponentially, and as keys of mappings they are compared before any limit applies.
        guard !text.contains(/(^|[\s\[{,:\-])&\S/) else {
            throw ModelError(message: "the manifest has anchors (&name), which are not read here")
        }
        return try read(text: text, file: "manifest", followsSecrets: false).map(\.definition)
    }
}
