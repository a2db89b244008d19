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
