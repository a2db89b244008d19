extension KindDefinition {
    /// What to make of members that no version of this program knows.
    package enum UnknownMembers: Sendable {
        /// A manifest, which a person may have misspelt.
        case refused
        /// A stored definition, which a newer version may have written.
        case ignored
    }

    /// Longest placeholder, in bytes.
    package static let maximumPlaceholderBytes = 65_536
    /// The most volatile fields.
    package static let maximumVolatileFields = 100

    /// The definition as it is stored. Durations are seconds.
    package func json() -> JSONValue {
        var object = JSONObject()
        object["name"] = .string(name)
        object["displayName"] = .string(displayName)
        object["description"] = .string(description)
        object["families"] = .array(families.map { .string($0.name) })
        object["sharing"] = .string(sharing.name)
        object["variesBy"] = .array(variesBy.names.map { .string($0) })
        object["providerURL"] = .string(providerURL)
        object["maxBatch"] = .number(JSONNumber(maxBatch))
        object["timeout"] = DurationText.json(timeout)
        object["minimumSpacing"] = DurationText.json(minimumSpacing)
        if let dailyBudget {
            object["dailyBudget"] = [
                "minimum": .number(JSONNumber(dailyBudget.minimum)),
                "maximum": .number(JSONNumber(dailyBudget.maximum)),
            ]
        }
        object["placeholder"] = placeholder
        if !volatileFields.isEmpty { object["volatileFields"] = .array(volatileFields.map { .string($0) }) }
        if let accentColor { object["accentColor"] = .string(accentColor) }
        if let backgroundColor { object["backgroundColor"] = .string(backgroundColor) }
        object["dormantAfter"] = DurationText.json(dormantAfter)
        // Left out where it is the default, as in the definitions that were stored before there was such a field.
        if reloadTolerance != Self.defaultReloadTolerance {
            object["reloadTolerance"] = DurationText.json(reloadTolerance)
        }
        if !hasSnapshots { object["snapshots"] = .bool(false) }
        return .object(object)
    }

    /// A stored definition.
    ///
    /// - Throws: the first thing that is wrong with it.
    package init(json: JSONValue) throws(ModelError) {
        switch Self.validate(json, unknownMembers: .ignored) {
        case .success(let definition): self = definition
        case .failure(let errors): throw errors.errors[0]
        }
    }

    /// Reads a definition and reports everything that is wrong with it.
    ///
    /// - Parameter pointer: where the definition lies in its document.
    package static func validate(
        _ json: JSONValue, at pointer: String = "", unknownMembers: UnknownMembers = .refused
    ) -> Result<KindDefinition, ModelErrors> {
        var errors: [ModelError] = []
        let definition = read(json, at: pointer, unknownMembers, &errors)
        if let errors = ModelErrors(errors) { return .failure(errors) }
        guard let definition else { return .failure(.unreadable(at: pointer)) }
        return .success(definition)
    }

    /// Nil only when there are errors.
    static func read(
        _ json: JSONValue, at pointer: String, _ unknownMembers: UnknownMembers, _ errors: inout [ModelError]
    ) -> KindDefinition? {
        guard var members = MemberChecker(json, at: pointer, errors: &errors) else { return nil }
        defer { errors.append(contentsOf: members.errors) }

        let name = members.string("name", members.required("name"), maximumBytes: Text.maximumIdentifierBytes)
        let displayName = members.string("displayName", members.optional("displayName"), maximumBytes: 256)
        let description = members.string(
            "description", members.optional("description"), maximumBytes: 4096, mayBeEmpty: true)
        let families = members.list(
            "families", expected: "one of \(WidgetFamily.allCases.map(\.name).joined(separator: ", "))",
            WidgetFamily.init(name:))
        let sharing = members.choice("sharing", expected: "perUser or shared", KindSharing.init(name:))
        let variesBy = members.list(
            "variesBy", expected: "one of family, locale, timeZone", KindVariation.init(name:))
        let providerURL = readProviderURL(&members)
        let maxBatch = members.integer("maxBatch", in: 1...1000)
        let timeout = members.duration("timeout", in: .milliseconds(100)...(.seconds(120)))
        let minimumSpacing = members.duration("minimumSpacing", in: .zero...(.seconds(7 * 86_400)))
        let dailyBudget = readDailyBudget(&members)
        let placeholder = readPlaceholder(&members)
        let volatileFields = members.list("volatileFields", expected: "a JSON pointer") { text in
            JSONPointer(text).map { _ in text }
        }
        if let volatileFields, volatileFields.count > maximumVolatileFields {
            members.fail("volatileFields", "at most \(maximumVolatileFields) are allowed")
        }
        let accentColor = members.string("accentColor", members.optional("accentColor"), maximumBytes: 256)
        let backgroundColor = members.string(
            "backgroundColor", members.optional("backgroundColor"), maximumBytes: 256)
        let dormantAfter = members.duration("dormantAfter", in: .seconds(3600)...(.seconds(3650 * 86_400)))
        let reloadTolerance = members.duration("reloadTolerance", in: .zero...(.seconds(86_400)))
        let snapshots = members.boolean("snapshots")
        if unknownMembers == .refused { members.refuseUnknown() }

        guard members.errors.isEmpty, let name, let providerURL, let placeholder else { return nil }
        return KindDefinition(
            name: name, displayName: displayName, description: description ?? "",
            families: WidgetFamily.allCases.filter { families?.contains($0) ?? true },
            sharing: sharing ?? .perUser,
            variesBy: variesBy.map { $0.reduce(into: KindVariation()) { $0.formUnion($1) } } ?? .all,
            providerURL: providerURL, maxBatch: maxBatch.map(Int.init) ?? defaultMaxBatch,
            timeout: timeout ?? defaultTimeout, minimumSpacing: minimumSpacing ?? defaultMinimumSpacing,
            dailyBudget: dailyBudget, placeholder: placeholder, volatileFields: volatileFields ?? [],
            accentColor: accentColor, backgroundColor: backgroundColor,
            dormantAfter: dormantAfter ?? defaultDormantAfter,
            reloadTolerance: reloadTolerance ?? defaultReloadTolerance, hasSnapshots: snapshots ?? true)
    }

    private static func readProviderURL(_ members: inout MemberChecker) -> String? {
        let value = members.required("providerURL")
        guard let text = members.string("providerURL", value, maximumBytes: ProviderURL.maximumBytes) else {
            return nil
        }
        do throws(ModelError) {
            return try ProviderURL(text).description
        } catch {
            members.fail("providerURL", error.message)
            return nil
        }
    }

    private static func readDailyBudget(_ members: inout MemberChecker) -> DailyBudget? {
        guard let value = members.optional("dailyBudget") else { return nil }
        var errors: [ModelError] = []
        let pointer = members.pointer(to: "dailyBudget")
        guard var budget = MemberChecker(value, at: pointer, errors: &errors) else {
            members.append(errors)
            return nil
        }
        let standard = DailyBudget()
        let minimum = budget.integer("minimum", in: 0...100_000).map(Int.init) ?? standard.minimum
        let maximum = budget.integer("maximum", in: 1...100_000).map(Int.init) ?? standard.maximum
        if budget.errors.isEmpty, minimum > maximum {
            budget.fail("minimum", "must not be greater than the maximum, \(maximum)")
        }
        budget.refuseUnknown()
        members.append(budget.errors)
        return DailyBudget(minimum: minimum, maximum: maximum)
    }

    private static func readPlaceholder(_ members: inout MemberChecker) -> JSONValue? {
        guard let placeholder = members.required("placeholder") else { return nil }
        let canonical = placeholder.canonicalBytes
        if canonical.count > maximumPlaceholderBytes {
            members.fail("placeholder", "must be at most \(maximumPlaceholderBytes) bytes, is \(canonical.count)")
        }
        if CanonicalJSON.containsNull(canonical) { members.fail("placeholder", "must not contain U+0000") }
        return placeholder
    }
}

extension ModelErrors {
    /// For a document that gave neither a value nor an error.
    static func unreadable(at pointer: String) -> ModelErrors {
        ModelErrors(ModelError(message: "unreadable", pointer: pointer))
    }

    /// One error.
    init(_ error: ModelError) {
        errors = [error]
    }
}
