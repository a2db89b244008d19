import Foundation
package import WidgetModel
package import WidgetRepresentation

/// A manifest: one app with its kinds per YAML document.
package struct Manifest: Sendable {
    package var apps: [App]

    package struct App: Sendable {
        package var definition: AppDefinition
        package var signingSecretReference: SigningSecretReference?
        /// The secret; nil for none, or if secrets were not resolved.
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
    /// - Parameters:
    ///   - environment: variables with signing secrets; nil leaves secrets unresolved.
    package static func read(path: String, environment: [String: String]?) throws(ManifestError) -> Manifest {
        let text: String
        do {
            text = try BoundedFile.read(path: path, maximumBytes: LocatedYAML.maximumBytes)
        } catch {
            throw ManifestError(problems: [FileProblem(file: path, message: error.message)])
        }
        let folder = URL(fileURLWithPath: path).deletingLastPathComponent().path
        return try read(text: text, file: path, folder: folder, environment: environment)
    }

    package static func read(
        text: String, file: String, folder: String = ".", environment: [String: String]?
    ) throws(ManifestError) -> Manifest {
        let yaml = LocatedYAML.read(text, file: file)
        var reader = ManifestReader(file: file, folder: folder, environment: environment)
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

/// Turns the documents of a manifest into definitions and collects everything that is wrong with them.
///
/// ``AppDefinition/validate(manifest:)`` has the rules; the reader finds the lines of its errors.
struct ManifestReader {
    let file: String
    let folder: String
    let environment: [String: String]?
    private(set) var problems: [FileProblem] = []

    /// The apps that could be read; use them only if no problem was found.
    mutating func apps(_ documents: [LocatedValue]) -> [Manifest.App] {
        var apps: [Manifest.App] = []
        var marks: [String: SourceMark] = [:]
        for document in documents {
            // A trailing `---` leaves an empty document.
            if document.isNull, documents.count > 1 { continue }
            guard let app = app(document) else { continue }
            if let first = marks[app.definition.name] {
                report(
                    document.mark, "app", "\"\(app.definition.name)\" is already declared at line \(first.line)",
                    expected: "one document for each app")
                continue
            }
            marks[app.definition.name] = document.mark
            apps.append(app)
        }
        return apps
    }

    private mutating func app(_ document: LocatedValue) -> Manifest.App? {
        let (reference, secret) = signingSecret(document)
        switch AppDefinition.validate(manifest: document.json) {
        case .success(let definition):
            return Manifest.App(definition: definition, signingSecretReference: reference, signingSecret: secret)
        case .failure(let errors):
            for error in errors.errors {
                let place = document.place(of: error.pointer)
                report(place.mark, place.path, error.message)
            }
            return nil
        }
    }

    private mutating func signingSecret(_ document: LocatedValue) -> (SigningSecretReference?, SigningSecret?) {
        guard case .mapping(let members) = document.content,
            let value = members.first(where: { $0.key == "signingSecret" })?.value, !value.isNull
        else { return (nil, nil) }
        let path = "signingSecret"
        let expected = "{environment: NAME} or {file: path}"
        guard case .mapping(let places) = value.content else {
            // The value may be the secret itself, which must not be repeated in a message.
            report(value.mark, path, "the secret itself does not belong into a manifest", expected: expected)
            return (nil, nil)
        }
        let reference: SigningSecretReference
        switch (places.first?.key, places.first?.value.content) {
        case ("environment", .scalar(.string(let name))?) where places.count == 1: reference = .environment(name)
        case ("file", .scalar(.string(let file))?) where places.count == 1: reference = .file(file)
        default:
            report(value.mark, path, "names not exactly one place", expected: expected)
            return (nil, nil)
        }
        guard let environment else { return (reference, nil) }
        do throws(SigningSecretReference.Unresolved) {
            return (reference, try reference.resolve(environment: environment, folder: folder))
        } catch {
            report(value.mark, path, error.message, expected: error.expectation)
            return (reference, nil)
        }
    }

    private mutating func report(_ mark: SourceMark, _ path: String, _ message: String, expected: String? = nil) {
        problems.append(FileProblem(file: file, mark: mark, path: path, message: message, expectation: expected))
    }
}

extension LocatedValue {
    /// The place of a JSON pointer: the mark of its key or item, or of the value that lacks it, and the path as YAML
    /// users write it, such as `kinds[1].maxBatch`.
    fileprivate func place(of pointer: String) -> (mark: SourceMark, path: String) {
        var (place, path) = ((mark: mark, value: Optional(self)), "")
        for token in JSONPointer(pointer)?.tokens ?? [] {
            switch place.value?.content {
            case .sequence(let items):
                path += "[\(token)]"
                let item = Int(token).flatMap { items.indices.contains($0) ? items[$0] : nil }
                place = (item?.mark ?? place.mark, item)
            case .mapping(let members):
                path += path.isEmpty ? token : ".\(token)"
                let member = members.first { $0.key == token }
                place = (member?.keyMark ?? place.mark, member?.value)
            default:
                path += ".\(token)"
            }
        }
        return (place.mark, path)
    }
}
