package import JSON

extension AppDefinition {
    /// Greatest number of kinds of an app.
    package static let maximumKinds = 1000

    /// Reads one app of a manifest, `{"app", "developerMode"?, "provider"?, "signingSecret"?, "kinds": […]}`, and
    /// reports all its errors. The signing secret is left to the caller.
    package static func validate(manifest json: JSONValue) -> Result<AppDefinition, ModelErrors> {
        ModelErrors.result { errors in read(json, &errors) }
    }

    /// Returns whether a text can be an app's name: parts of ASCII letters, digits, `-` and `_`, separated by dots.
    package static func isBundleIdentifier(_ text: String) -> Bool {
        guard text.utf8.count <= Text.maximumIdentifierBytes else { return false }
        return text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false).allSatisfy { part in
            !part.isEmpty && part.allSatisfy { $0.isASCIIAlphanumeric || "-_".utf8.contains($0) }
        }
    }

    private static func read(_ json: JSONValue, _ errors: inout [ModelError]) -> AppDefinition? {
        guard var members = MemberChecker(json, at: "", errors: &errors) else { return nil }
        defer { errors.append(contentsOf: members.errors) }

        let name = members.string("app", isRequired: true)
        if let name, !isBundleIdentifier(name) {
            members.fail("app", "expected a bundle identifier such as com.example.bank, found \(Text.quoted(name))")
        }
        let developerMode = members.boolean("developerMode")
        // An unusable provider counts as "", so that it is reported once, not for each kind without its own provider.
        let hasProvider = members.optional("provider") != nil
        let provider = members.object("provider") { $0.providerURL("url") } ?? (hasProvider ? "" : nil)
        _ = members.optional("signingSecret")
        var kinds: [KindDefinition] = []
        switch members.required("kinds") {
        case .array(let values) where values.isEmpty:
            members.fail("kinds", "expected at least one kind")
        case .array(let values) where values.count > maximumKinds:
            members.fail("kinds", "at most \(maximumKinds) kinds are allowed, found \(values.count)")
        case .array(let values):
            kinds = readKinds(values, provider: provider, &members)
        case let value?:
            members.fail("kinds", "expected an array, found \(value.kind.name)")
        case nil:
            break
        }
        members.refuseUnknown()
        guard members.errors.isEmpty, let name else { return nil }
        return AppDefinition(name: name, developerMode: developerMode ?? false, kinds: kinds)
    }

    private static func readKinds(
        _ values: [JSONValue], provider: String?, _ members: inout MemberChecker
    ) -> [KindDefinition] {
        var kinds: [KindDefinition] = []
        var names: [String: Int] = [:]
        for (index, value) in values.enumerated() {
            var errors: [ModelError] = []
            let pointer = "/kinds/\(index)"
            if let kind = KindDefinition.read(value, at: pointer, .manifest(provider: provider), &errors) {
                kinds.append(kind)
            }
            if let name = value["name"]?.stringValue {
                if let first = names[name] {
                    errors.append(
                        ModelError(
                            message: "kind \(Text.quoted(name)) is already defined at /kinds/\(first)",
                            pointer: pointer + "/name"))
                } else {
                    names[name] = index
                }
            }
            members.append(errors)
        }
        return kinds
    }
}
