import WidgetModel

/// Turns the documents of a manifest into definitions, collecting what is wrong on the way.
struct ManifestReader {
    var fields: FieldReader
    private let folder: String
    private let environment: [String: String]?
    /// Whether the app being read has a provider of its own, right or wrong.
    private(set) var appDeclaresProvider = false

    init(file: String, folder: String, environment: [String: String]?) {
        self.fields = FieldReader(file: file)
        self.folder = folder
        self.environment = environment
    }

    private static let appKeys = ["app", "developerMode", "provider", "signingSecret", "kinds"]

    /// The apps that could be read; use them only if no problem was found.
    mutating func apps(_ documents: [LocatedValue]) -> [Manifest.App] {
        var apps: [Manifest.App] = []
        var marks: [String: SourceMark] = [:]
        for document in documents {
            // A document with nothing in it is what a trailing `---` leaves.
            if document.isNull, documents.count > 1 { continue }
            guard let app = app(document) else { continue }
            if let first = marks[app.definition.name] {
                fields.report(
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
        guard let members = fields.fields(of: document, path: "", known: Self.appKeys) else { return nil }
        let name = appName(members)
        let developerMode = fields.bool("developerMode", in: members) ?? false
        appDeclaresProvider = members["provider"] != nil
        let providerURL = providerURL(members)
        let (reference, secret) = signingSecret(members)
        let kinds = kinds(members, providerURL: providerURL)
        guard let name, let kinds else { return nil }
        return Manifest.App(
            definition: AppDefinition(name: name, developerMode: developerMode, kinds: kinds),
            signingSecretReference: reference, signingSecret: secret)
    }

    private mutating func appName(_ members: FieldReader.Fields) -> String? {
        let expected = "a bundle identifier such as com.example.bank"
        guard let value = fields.require("app", in: members, expected: expected),
            let name = fields.string(value, path: "app", limit: Text.maximumIdentifierBytes)
        else { return nil }
        guard AppDefinition.isBundleIdentifier(name) else {
            fields.report(value.mark, "app", "\(value.excerpt) is not a bundle identifier", expected: expected)
            return nil
        }
        return name
    }

    private mutating func kinds(_ members: FieldReader.Fields, providerURL: String?) -> [KindDefinition]? {
        guard let value = fields.require("kinds", in: members, expected: "a list of kinds") else { return nil }
        guard case .sequence(let items) = value.content else {
            fields.wrongType(value, "kinds", expected: "a list of kinds")
            return nil
        }
        guard (1...AppDefinition.maximumKinds).contains(items.count) else {
            fields.report(value.mark, "kinds", "\(items.count) kinds", expected: "1 to \(AppDefinition.maximumKinds)")
            return nil
        }
        var kinds: [KindDefinition] = []
        var names: [String: SourceMark] = [:]
        for (index, item) in items.enumerated() {
            let path = "kinds[\(index)]"
            guard let members = fields.fields(of: item, path: path, known: Self.kindKeys) else { continue }
            let name = kindName(members)
            if let name {
                if let first = names[name] {
                    fields.report(
                        members.mark(of: "name"), "\(path).name",
                        "\"\(name)\" is already the name of the kind at line \(first.line)",
                        expected: "every name once")
                }
                names[name] = names[name] ?? members.mark(of: "name")
            }
            if let kind = kind(members, name: name, providerURL: providerURL) {
                kinds.append(kind)
                checkWithModel(kind, members)
            }
        }
        return kinds
    }

    /// The URL in `provider` of an app or a kind, in its normal form.
    mutating func providerURL(_ members: FieldReader.Fields) -> String? {
        guard let value = members["provider"] else { return nil }
        let path = members.path(of: "provider")
        guard let provider = fields.fields(of: value, path: path, known: ["url"]) else { return nil }
        let expected = "an http or https URL such as https://widgets.example.com/bank"
        guard let url = fields.require("url", in: provider, expected: expected),
            let text = fields.string(url, path: "\(path).url", limit: 2_048)
        else { return nil }
        do throws(ModelError) {
            return try ProviderURL(text).description
        } catch {
            fields.report(url.mark, "\(path).url", error.message, expected: expected)
            return nil
        }
    }

    private mutating func signingSecret(
        _ members: FieldReader.Fields
    ) -> (SigningSecretReference?, SigningSecret?) {
        guard let value = members["signingSecret"] else { return (nil, nil) }
        let path = "signingSecret"
        let expected = "{environment: NAME} or {file: path}"
        guard case .mapping = value.content else {
            // The value may be the secret itself, which must not be repeated in a message.
            fields.report(value.mark, path, "the secret itself does not belong into a manifest", expected: expected)
            return (nil, nil)
        }
        guard let source = fields.fields(of: value, path: path, known: ["environment", "file"]) else {
            return (nil, nil)
        }
        let reference: SigningSecretReference
        switch (source["environment"], source["file"]) {
        case (_?, nil):
            guard let name = fields.string("environment", in: source, limit: 256) else { return (nil, nil) }
            reference = .environment(name)
        case (nil, _?):
            guard let file = fields.string("file", in: source, limit: 4_096) else { return (nil, nil) }
            reference = .file(file)
        case (nil, nil), (_?, _?):
            fields.report(value.mark, path, "names not exactly one place", expected: expected)
            return (nil, nil)
        }
        guard let environment else { return (reference, nil) }
        do throws(SigningSecretReference.Unresolved) {
            return (reference, try reference.resolve(environment: environment, folder: folder))
        } catch {
            fields.report(value.mark, path, error.message, expected: error.expectation)
            return (reference, nil)
        }
    }
}
