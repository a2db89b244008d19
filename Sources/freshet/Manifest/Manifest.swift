import Foundation
import WidgetModel

/// What a manifest file declares: one app per YAML document, with its kinds.
struct Manifest: Sendable {
    var apps: [App]

    /// One app of a manifest.
    struct App: Sendable {
        var definition: AppDefinition
        /// Where the manifest says that the app's signing secret is kept.
        var signingSecretReference: SigningSecretReference?
        /// The secret itself; nil when there is none, or when secrets were not resolved.
        var signingSecret: SigningSecret?
    }
}

/// A manifest that cannot be used: everything that is wrong with it, in the order of the file.
struct ManifestError: Error, Sendable, CustomStringConvertible {
    let problems: [FileProblem]

    init(problems: [FileProblem]) {
        let start = SourceMark(line: 0, column: 0)
        self.problems = problems.enumerated()
            .sorted { ($0.element.mark ?? start, $0.offset) < ($1.element.mark ?? start, $1.offset) }
            .map(\.element)
    }

    /// One line a problem.
    var description: String {
        problems.map(\.description).joined(separator: "\n")
    }
}

extension Manifest {
    /// Reads and checks the manifest at `path`; blocks while it reads.
    ///
    /// - Parameters:
    ///   - environment: where signing secrets are looked up; nil leaves them unresolved, for commands that do not
    ///     need them.
    static func read(path: String, environment: [String: String]?) throws(ManifestError) -> Manifest {
        let text: String
        do {
            text = try BoundedFile.read(path: path, maximumBytes: LocatedYAML.maximumBytes)
        } catch {
            throw ManifestError(
                problems: [FileProblem(file: path, mark: nil, path: "", message: error.message, expectation: nil)])
        }
        let folder = URL(fileURLWithPath: path).deletingLastPathComponent().path
        return try read(text: text, file: path, folder: folder, environment: environment)
    }

    /// Reads and checks a manifest's text; `file` is the name that problems carry.
    static func read(
        text: String, file: String, folder: String = ".", environment: [String: String]?
    ) throws(ManifestError) -> Manifest {
        let yaml = LocatedYAML.read(text, file: file)
        var reader = ManifestReader(file: file, folder: folder, environment: environment)
        let apps = reader.apps(yaml.documents)
        var problems = yaml.problems + reader.problems
        if yaml.documents.isEmpty, problems.isEmpty {
            problems.append(
                FileProblem(
                    file: file, mark: nil, path: "", message: "the file is empty",
                    expectation: "a mapping with app and kinds"))
        }
        guard problems.isEmpty else { throw ManifestError(problems: problems) }
        return Manifest(apps: apps)
    }
}
