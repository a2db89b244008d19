import WidgetModel

extension ManifestReader {
    static let kindKeys = [
        "name", "displayName", "description", "families", "sharing", "variesBy", "provider", "maxBatch", "timeout",
        "minimumSpacing", "budget", "placeholder", "volatileFields", "accentColor", "backgroundColor", "dormantAfter",
        "reloadTolerance", "snapshots",
    ]

    /// The kind's name; apart from the rest, so that names are compared even between kinds that are wrong elsewhere.
    mutating func kindName(_ members: FieldReader.Fields) -> String? {
        let expected = "a name such as RecentPurchases"
        guard let value = fields.require("name", in: members, expected: expected),
            let name = fields.string(value, path: members.path(of: "name"), limit: 128)
        else { return nil }
        let isName = name.unicodeScalars.allSatisfy { !$0.properties.isWhitespace && $0 != "/" }
        guard isName else {
            fields.report(
                value.mark, members.path(of: "name"), "\(value.excerpt) has white space or a slash",
                expected: expected)
            return nil
        }
        return name
    }

    /// Reads what is left of a kind; nil when it cannot be made.
    mutating func kind(
        _ members: FieldReader.Fields, name: String?, providerURL appProviderURL: String?
    ) -> KindDefinition? {
        let displayName = fields.string("displayName", in: members, limit: 256)
        let description = fields.string("description", in: members, limit: 2_048, allowsEmpty: true)
        let families = families(members)
        let sharing = sharing(members)
        let variesBy = variesBy(members)
        let maxBatch = fields.integer("maxBatch", in: members, range: 1...1_000)
        let timeout = fields.duration("timeout", in: members, range: .milliseconds(100)...(.seconds(120)))
        let spacing = fields.duration("minimumSpacing", in: members, range: .zero...(.seconds(86_400)))
        let dormantAfter = fields.duration(
            "dormantAfter", in: members, range: .seconds(3_600)...(.seconds(365 * 86_400)))
        let reloadTolerance = fields.duration("reloadTolerance", in: members, range: .zero...(.seconds(86_400)))
        let snapshots = fields.bool("snapshots", in: members)
        let budget = budget(members)
        let placeholder = placeholder(members)
        let volatileFields = volatileFields(members)
        let accentColor = fields.string("accentColor", in: members, limit: 64)
        let backgroundColor = fields.string("backgroundColor", in: members, limit: 64)
        let providerURL = kindProviderURL(members, appProviderURL: appProviderURL)

        guard let name, let placeholder, let providerURL else { return nil }
        var kind = KindDefinition(name: name, providerURL: providerURL, placeholder: placeholder)
        kind.displayName = displayName ?? name
        kind.description = description ?? ""
        kind.families = families ?? WidgetFamily.allCases
        if let sharing { kind.sharing = sharing }
        if let variesBy { kind.variesBy = variesBy }
        if let maxBatch { kind.maxBatch = maxBatch }
        if let timeout { kind.timeout = timeout }
        if let spacing { kind.minimumSpacing = spacing }
        if let dormantAfter { kind.dormantAfter = dormantAfter }
        if let reloadTolerance { kind.reloadTolerance = reloadTolerance }
        if let snapshots { kind.hasSnapshots = snapshots }
        kind.dailyBudget = budget
        kind.volatileFields = volatileFields ?? []
        kind.accentColor = accentColor
        kind.backgroundColor = backgroundColor
        return kind
    }

    /// Reports what the model refuses for reasons that were not looked for here: what is applied is what it takes.
    mutating func checkWithModel(_ kind: KindDefinition, _ members: FieldReader.Fields) {
        guard case .failure(let errors) = KindDefinition.validate(kind.json()) else { return }
        for error in errors.errors {
            let key = error.pointer.split(separator: "/").first.map(String.init) ?? ""
            fields.report(members.mark(of: key), members.path(of: key), error.message)
        }
    }

    /// The kind's own provider, else the app's.
    private mutating func kindProviderURL(_ members: FieldReader.Fields, appProviderURL: String?) -> String? {
        if members["provider"] != nil { return providerURL(members) }
        if let appProviderURL { return appProviderURL }
        // A provider of the app that is there but wrong has been reported already.
        guard !appDeclaresProvider else { return nil }
        fields.report(
            members.mark, members.path(of: "provider"), "is missing, and the app names no default",
            expected: "{url: …} here or at the app")
        return nil
    }

    private mutating func families(_ members: FieldReader.Fields) -> [WidgetFamily]? {
        let choices = WidgetFamily.allCases.map { (name: $0.name, value: $0) }
        let families = fields.list("families", in: members, of: "families") { reader, value, path in
            reader.choice(value, path: path, of: choices)
        }
        guard let value = members["families"], case .sequence(let items) = value.content, items.isEmpty else {
            // Stored in the order of the definition, so that the order in the file makes no difference.
            return families?.sorted { $0.rawValue < $1.rawValue }
        }
        fields.report(
            value.mark, members.path(of: "families"), "is an empty list",
            expected: "at least one family, or no such key for all of them")
        return nil
    }

    private mutating func sharing(_ members: FieldReader.Fields) -> KindSharing? {
        guard let value = members["sharing"] else { return nil }
        return fields.choice(
            value, path: members.path(of: "sharing"), of: [("perUser", .perUser), ("shared", .shared)])
    }

    private mutating func variesBy(_ members: FieldReader.Fields) -> KindVariation? {
        let choices: [(name: String, value: String)] = ["family", "locale", "timeZone"].map { ($0, $0) }
        let names = fields.list("variesBy", in: members, of: "family, locale, timeZone") { reader, value, path in
            reader.choice(value, path: path, of: choices)
        }
        guard let names else { return nil }
        var variation: KindVariation = []
        if names.contains("family") { variation.insert(.family) }
        if names.contains("locale") { variation.insert(.locale) }
        if names.contains("timeZone") { variation.insert(.timeZone) }
        return variation
    }

    private mutating func budget(_ members: FieldReader.Fields) -> DailyBudget? {
        guard let value = members["budget"],
            let budget = fields.fields(of: value, path: members.path(of: "budget"), known: ["minimum", "maximum"])
        else { return nil }
        for key in ["minimum", "maximum"] { _ = fields.require(key, in: budget, expected: "reloads a day") }
        guard let minimum = fields.integer("minimum", in: budget, range: 0...100_000),
            let maximum = fields.integer("maximum", in: budget, range: 1...100_000)
        else { return nil }
        guard minimum <= maximum else {
            fields.report(
                value.mark, budget.path, "the minimum \(minimum) is above the maximum \(maximum)",
                expected: "minimum ≤ maximum")
            return nil
        }
        return DailyBudget(minimum: minimum, maximum: maximum)
    }

    private mutating func volatileFields(_ members: FieldReader.Fields) -> [String]? {
        fields.list("volatileFields", in: members, of: "JSON pointers") { reader, value, path in
            guard let pointer = reader.string(value, path: path, limit: 512) else { return nil }
            // The pointer to the whole content would leave nothing to compare.
            guard !pointer.isEmpty, JSONPointer(pointer) != nil else {
                reader.report(
                    value.mark, path, "\(value.excerpt) is not a JSON pointer",
                    expected: "a pointer into the content such as /generatedAt")
                return nil
            }
            return pointer
        }
    }

    private mutating func placeholder(_ members: FieldReader.Fields) -> JSONValue? {
        let path = members.path(of: "placeholder")
        guard let value = fields.require("placeholder", in: members, expected: "what the widget shows without data")
        else { return nil }
        do throws(LocatedValue.OutOfRange) {
            // Measured first, so that nothing huge is converted only to be refused.
            var bytes = value.minimumJSONBytes
            let json: JSONValue = bytes <= KindDefinition.maximumPlaceholderBytes ? try value.json() : .null
            if bytes <= KindDefinition.maximumPlaceholderBytes { bytes = json.encoded.count }
            guard bytes <= KindDefinition.maximumPlaceholderBytes else {
                fields.report(
                    value.mark, path, "has \(bytes) bytes as JSON",
                    expected: "at most \(KindDefinition.maximumPlaceholderBytes)")
                return nil
            }
            return json
        } catch {
            fields.report(error.mark, path, "\(error.text) is out of range", expected: "a finite number")
            return nil
        }
    }
}
