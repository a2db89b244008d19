package import JSON

extension KindDefinition {
    /// Document that holds a definition.
    enum Form {
        /// A manifest. It names the provider and the budget in its own way.
        ///
        /// - Parameter provider: URL of the app's provider, for kinds without one of their own.
        case manifest(provider: String?)
        /// A request to the API.
        case request
        /// A stored definition. A newer version may have written it, so unknown members and families are ignored.
        case stored

        fileprivate var isStored: Bool { if case .stored = self { true } else { false } }
    }

    /// Longest placeholder, in bytes.
    package static let maximumPlaceholderBytes = 65_536
    /// Largest number of volatile fields.
    package static let maximumVolatileFields = 100

    /// Stored form. Durations are seconds.
    package func json() -> JSONValue {
        var object: JSONObject = [
            "name": .string(name), "displayName": .string(displayName), "description": .string(description),
            "families": .texts(families.map(\.name)), "sharing": .string(sharing.name),
            "variesBy": .texts(variesBy.names), "providerURL": .string(providerURL),
            "maxBatch": .count(maxBatch), "timeout": DurationText.json(timeout),
            "minimumSpacing": DurationText.json(minimumSpacing),
        ]
        if let dailyBudget {
            object["dailyBudget"] = ["minimum": .count(dailyBudget.minimum), "maximum": .count(dailyBudget.maximum)]
        }
        object["placeholder"] = placeholder
        if !volatileFields.isEmpty { object["volatileFields"] = .texts(volatileFields) }
        object["accentColor"] = accentColor.map { .string($0) }
        object["backgroundColor"] = backgroundColor.map { .string($0) }
        object["dormantAfter"] = DurationText.json(dormantAfter)
        // Left out where it is the default, as in the definitions that were stored before there was such a field.
        if reloadTolerance != Self.defaultReloadTolerance {
            object["reloadTolerance"] = DurationText.json(reloadTolerance)
        }
        if let freshnessObjective { object["freshnessObjective"] = DurationText.json(freshnessObjective) }
        if !hasSnapshots { object["snapshots"] = .bool(false) }
        if let widgetURL { object["widgetURL"] = .string(widgetURL) }
        if let intent { object["intent"] = intent.json() }
        return .object(object)
    }

    /// A stored definition, without the members and families that this version does not know.
    ///
    /// - Throws: the first error, such as an unknown type of a parameter, which this version cannot do without.
    package init(json: JSONValue) throws(ModelError) {
        var errors: [ModelError] = []
        guard let definition = Self.read(json, at: "", .stored, &errors) else {
            throw errors.first ?? ModelError(message: "unreadable")
        }
        self = definition
    }

    /// Reads the definition of a request and reports all its errors.
    package static func validate(_ json: JSONValue) -> Result<KindDefinition, ModelErrors> {
        ModelErrors.result { errors in read(json, at: "", .request, &errors) }
    }

    /// Nil only when there are errors.
    static func read(
        _ json: JSONValue, at pointer: String, _ form: Form, _ errors: inout [ModelError]
    ) -> KindDefinition? {
        guard
            var members = MemberChecker(json, at: pointer, ignoresUnknown: form.isStored, errors: &errors)
        else { return nil }
        defer { errors.append(contentsOf: members.errors) }

        let name = members.string("name", isRequired: true)
        let displayName = members.string("displayName")
        let description = members.string("description", maximumBytes: 4096, mayBeEmpty: true)
        let families = readFamilies(&members, form)
        let sharing: KindSharing? = members.choice("sharing")
        let variesBy = members.list("variesBy", among: KindVariation.all.names, KindVariation.init(name:))
        let providerURL = readProviderURL(&members, form)
        let maxBatch = members.integer("maxBatch", in: 1...1000)
        let timeout = members.duration("timeout", in: .milliseconds(100)...(.seconds(120)))
        let minimumSpacing = members.duration("minimumSpacing", in: .zero...(.seconds(7 * 86_400)))
        let dailyBudget = readDailyBudget(&members, form)
        let placeholder = readPlaceholder(&members)
        // The pointer to the whole content would leave nothing to compare.
        let volatileFields = members.list(
            "volatileFields", expected: "a JSON pointer into the content such as /generatedAt"
        ) { text in text.isEmpty ? nil : JSONPointer(text).map { _ in text } }
        if let volatileFields, volatileFields.count > maximumVolatileFields {
            members.fail("volatileFields", "at most \(maximumVolatileFields) are allowed")
        }
        let accentColor = members.string("accentColor")
        let backgroundColor = members.string("backgroundColor")
        let dormantAfter = members.duration("dormantAfter", in: .seconds(3600)...(.seconds(3650 * 86_400)))
        let reloadTolerance = members.duration("reloadTolerance", in: .zero...(.seconds(86_400)))
        let freshnessObjective = members.duration("freshnessObjective", in: .seconds(1)...(.seconds(86_400)))
        let snapshots = members.boolean("snapshots")
        let intent = members.object("intent") {
            IntentDefinition.read(&$0, families: families ?? WidgetFamily.allCases)
        }
        let widgetURL = readWidgetURL(&members, intent)
        members.refuseUnknown()

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
            reloadTolerance: reloadTolerance ?? defaultReloadTolerance, freshnessObjective: freshnessObjective,
            hasSnapshots: snapshots ?? true, widgetURL: widgetURL, intent: intent)
    }

    private static func readFamilies(_ members: inout MemberChecker, _ form: Form) -> [WidgetFamily]? {
        let families = members.list(
            "families", among: WidgetFamily.allCases.map(\.name), skipsUnknown: form.isStored, WidgetFamily.init(name:))
        if form.isStored, families?.isEmpty == true {
            members.fail("families", "names no family that this version knows")
        }
        return families
    }

    private static func readWidgetURL(_ members: inout MemberChecker, _ intent: IntentDefinition?) -> String? {
        guard
            let text = members.string("widgetURL", maximumBytes: LinkTemplate.maximumBytes)
        else { return nil }
        do throws(ModelError) {
            let template = try LinkTemplate(text)
            if let names = intent?.parameters.map(\.name),
                let unknown = template.parameters.first(where: { name in !names.contains { Text.equal($0, name) } })
            {
                members.fail("widgetURL", MemberChecker.unexpected(unknown, "a parameter", names))
            }
        } catch {
            members.fail("widgetURL", error.message)
        }
        return text
    }

    private static func readProviderURL(_ members: inout MemberChecker, _ form: Form) -> String? {
        guard case .manifest(let appProvider) = form else { return members.providerURL("providerURL") }
        guard members.optional("provider") == nil else { return members.object("provider") { $0.providerURL("url") } }
        if appProvider == nil { members.fail("provider", "is missing, and the app names no default") }
        return appProvider
    }

    private static func readDailyBudget(_ members: inout MemberChecker, _ form: Form) -> DailyBudget? {
        let key = if case .manifest = form { "budget" } else { "dailyBudget" }
        return members.object(key) { budget in
            let standard = DailyBudget()
            let minimum = budget.integer("minimum", in: 0...100_000).map(Int.init) ?? standard.minimum
            let maximum = budget.integer("maximum", in: 1...100_000).map(Int.init) ?? standard.maximum
            if budget.errors.isEmpty, minimum > maximum {
                budget.fail("minimum", "must not be greater than the maximum, \(maximum)")
            }
            return DailyBudget(minimum: minimum, maximum: maximum)
        }
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
    /// The value that `read` returns, unless it appends errors.
    static func result<Value>(_ read: (inout [ModelError]) -> Value?) -> Result<Value, ModelErrors> {
        var errors: [ModelError] = []
        let value = read(&errors)
        if value == nil, errors.isEmpty { errors.append(ModelError(message: "unreadable")) }
        if let value, errors.isEmpty { return .success(value) }
        return .failure(ModelErrors(errors))
    }
}
