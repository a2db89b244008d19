import Foundation
import JSON
import WidgetAPI
package import WidgetModel

/// A manifest: one app with its kinds per YAML document.
package struct Manifest: Sendable {
    package var apps: [App]

    package struct App: Sendable {
        package var definition: AppDefinition
        package var signingSecret: SigningSecret?
    }
}

/// All problems of a manifest, in the order of the file.
package struct ManifestError: Error, Sendable, CustomStringConvertible {
    package let problems: [FileProblem]

    package init(problems: [FileProblem]) {
        let start = SourceMark(line: 0, column: 0)
        self.problems = problems.enumerated()
            .sorted { ($0.element.mark ?? start, $0.offset) < ($1.element.mark ?? start, $1.offset) }
            .map(\.element)
    }

    package var description: String {
        problems.map(\.description).joined(separator: "\n")
    }
}

extension Manifest {
    /// Reads and checks the manifest at `path`; blocks while it reads.
    ///
    /// - Parameter environment: variables with signing secrets.
    package static func read(path: String, environment: [String: String]) throws(ManifestError) -> Manifest {
        let text: String
        do {
            text = try BoundedFile.read(path: path, maximumBytes: LocatedYAML.maximumBytes)
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
    ) throws(ManifestError) -> Manifest {
        let yaml = LocatedYAML.read(text, file: file)
        var reader = ManifestReader(
            file: file, folder: folder, environment: environment, followsSecrets: followsSecrets)
        let apps = reader.apps(yaml.documents)
        var problems = yaml.problems + reader.problems
        if yaml.documents.isEmpty, problems.isEmpty {
            problems.append(
                FileProblem(file: file, message: "the file is empty", expectation: "a mapping with app and kinds"))
        }
        guard problems.isEmpty else { throw ManifestError(problems: problems) }
        return Manifest(apps: apps)
    }
}

/// Turns the documents of a manifest into definitions and collects all errors.
///
/// ``AppDefinition/validate(manifest:)`` has the rules; the reader adds the lines to its errors.
struct ManifestReader {
    let file: String
    let folder: String
    let environment: [String: String]
    var followsSecrets = true
    private(set) var problems: [FileProblem] = []

    /// The apps that could be read. Use them only if no problem was found.
    mutating func apps(_ documents: [LocatedYAML]) -> [Manifest.App] {
        var apps: [Manifest.App] = []
        var lines: [String: Int] = [:]
        for document in documents {
            // A trailing `---` leaves an empty document.
            if document.json == .null, documents.count > 1 { continue }
            guard let app = app(document) else { continue }
            let (name, mark) = (app.definition.name, document.place(of: []).key)
            if let first = lines[name] {
                report(
                    mark, "app", "\"\(name)\" is already declared at line \(first)",
                    expected: "one document for each app")
                continue
            }
            lines[name] = mark.line
            apps.append(app)
        }
        return apps
    }

    private mutating func app(_ document: LocatedYAML) -> Manifest.App? {
        let secret = signingSecret(document)
        switch AppDefinition.validate(manifest: document.json) {
        case .success(let definition):
            return Manifest.App(definition: definition, signingSecret: secret)
        case .failure(let errors):
            for error in errors.errors {
                let place = document.place(of: JSONPointer(error.pointer)?.tokens ?? [])
                report(place.key, place.path, error.message)
            }
            return nil
        }
    }

    private mutating func signingSecret(_ document: LocatedYAML) -> SigningSecret? {
        guard let value = document.json["signingSecret"], value != .null else { return nil }
        let path = "signingSecret"
        let mark = document.place(of: [path]).value
        let expected = "{environment: NAME} or {file: path}"
        guard let members = value.objectValue?.members else {
            // The value may be the secret itself, which must not be repeated in a message.
            report(mark, path, "the secret itself does not belong in a manifest", expected: expected)
            return nil
        }
        let reference: SigningSecretReference
        switch (members.count, members.first?.key, members.first?.value) {
        case (1, "environment", .string(let name)): reference = .environment(name)
        case (1, "file", .string(let file)): reference = .file(file)
        default:
            report(mark, path, "does not name exactly one place", expected: expected)
            return nil
        }
        guard followsSecrets else { return nil }
        do throws(SigningSecretReference.Unresolved) {
            return try reference.resolve(environment: environment, folder: folder)
        } catch {
            report(mark, path, error.message, expected: error.expectation)
            return nil
        }
    }

    private mutating func report(_ mark: SourceMark, _ path: String, _ message: String, expected: String? = nil) {
        problems.append(FileProblem(file: file, mark: mark, path: path, message: message, expectation: expected))
    }
}
