import WidgetModel
import WidgetRepresentation

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
