// SPDX-License-Identifier: Apache-2.0

package import JSON

/// Bounds of a timeline's budgeted reloads a day, whose number depends on the views of its widgets.
package struct DailyBudget: Hashable, Sendable {
    package var minimum: Int
    package var maximum: Int

    package static let defaultMinimum = 8
    package static let defaultMaximum = 70

    package init(minimum: Int = defaultMinimum, maximum: Int = defaultMaximum) {
        self.minimum = minimum
        self.maximum = maximum
    }
}

/// Definition of a kind in a manifest.
package struct KindDefinition: Hashable, Sendable {
    package var name: String
    package var displayName: String
    package var description: String
    /// Never empty; in the order of `WidgetFamily.allCases`.
    package var families: [WidgetFamily]
    package var sharing: KindSharing
    package var variesBy: KindVariation
    /// In its normal form; see `ProviderURL`.
    package var providerURL: String
    /// Largest number of timelines in a request, 1 to 1000.
    package var maxBatch: Int
    /// Timeout of a request, 100 ms to 120 s.
    package var timeout: Duration
    /// Least time between two reloads of a timeline for budgeted reasons.
    package var minimumSpacing: Duration
    /// Nil for the default budget.
    package var dailyBudget: DailyBudget?
    /// Content before there is a timeline, without user data.
    package var placeholder: JSONValue
    /// JSON pointers into an entry's content whose changes are invisible.
    package var volatileFields: [String]
    /// Name of a colour of the app.
    package var accentColor: String?
    /// Name of a colour of the app.
    package var backgroundColor: String?
    /// Time without a view after which a widget gets no reloads by policy.
    package var dormantAfter: Duration
    /// Longest delay of a reload by jitter, which is also limited to a tenth of the interval.
    package var reloadTolerance: Duration
    /// Time within which devices are to fetch a change; nil: the one of the settings.
    package var freshnessObjective: Duration?
    /// Whether a widget without a timeline gets a snapshot before its timeline.
    package var hasSnapshots: Bool
    /// Link that the widgets open, as a ``LinkTemplate``; an entry's `url` has precedence.
    package var widgetURL: String?
    /// Definition of the configuration; nil allows any flat object.
    package var intent: IntentDefinition?

    package static let defaultMaxBatch = 100
    package static let defaultTimeout: Duration = .seconds(10)
    package static let defaultMinimumSpacing: Duration = .seconds(300)
    package static let defaultDormantAfter: Duration = .seconds(14 * 86_400)
    package static let defaultReloadTolerance: Duration = .seconds(300)

    package init(
        name: String, displayName: String? = nil, description: String = "",
        families: [WidgetFamily] = WidgetFamily.allCases, sharing: KindSharing = .perUser,
        variesBy: KindVariation = .all, providerURL: String, maxBatch: Int = defaultMaxBatch,
        timeout: Duration = defaultTimeout, minimumSpacing: Duration = defaultMinimumSpacing,
        dailyBudget: DailyBudget? = nil, placeholder: JSONValue, volatileFields: [String] = [],
        accentColor: String? = nil, backgroundColor: String? = nil, dormantAfter: Duration = defaultDormantAfter,
        reloadTolerance: Duration = defaultReloadTolerance, freshnessObjective: Duration? = nil,
        hasSnapshots: Bool = true,
        widgetURL: String? = nil, intent: IntentDefinition? = nil
    ) {
        self.name = name
        self.displayName = displayName ?? name
        self.description = description
        self.families = families.isEmpty ? WidgetFamily.allCases : families
        self.sharing = sharing
        self.variesBy = variesBy
        self.providerURL = providerURL
        self.maxBatch = maxBatch
        self.timeout = timeout
        self.minimumSpacing = minimumSpacing
        self.dailyBudget = dailyBudget
        self.placeholder = placeholder
        self.volatileFields = volatileFields
        self.accentColor = accentColor
        self.backgroundColor = backgroundColor
        self.dormantAfter = dormantAfter
        self.reloadTolerance = reloadTolerance
        self.freshnessObjective = freshnessObjective
        self.hasSnapshots = hasSnapshots
        self.widgetURL = widgetURL
        self.intent = intent
    }

    /// The volatile fields as pointers, which were checked when the manifest was read.
    package var volatilePointers: [JSONPointer] { volatileFields.compactMap { JSONPointer($0) } }

    /// The values that a widget shows: the configuration with defaults for what is left out or not allowed, without
    /// hidden parameters.
    package func effective(_ configuration: WidgetConfiguration, family: WidgetFamily) -> WidgetConfiguration {
        intent?.resolve(configuration, family: family).effective ?? configuration
    }

    /// Whether views of the kind's content are predicted, and its widgets suggested.
    package var isSuggestible: Bool { isEligibleForWidgets && intent?.isEligibleForSuggestions ?? true }

    /// A family that the kind supports, for values without a widget.
    package var anyFamily: WidgetFamily { families[0] }

    /// Whether widgets of the kind are offered and can be placed.
    package var isEligibleForWidgets: Bool { intent?.isEligibleForWidgets ?? true }

    /// Parts of the definition without an effect: sizes for families that the kind does not offer.
    package var notices: [String] {
        (intent?.parameters ?? []).compactMap { parameter in
            guard case .fixed(let limits) = parameter.count else { return nil }
            let others = WidgetFamily.allCases.filter { limits[$0] != nil && !families.contains($0) }
            guard !others.isEmpty else { return nil }
            let (unused, offered) = (others.map(\.name), families.map(\.name))
            return "\(name).\(parameter.name): the size for \(unused.joined(separator: ", ")) has no effect: "
                + "the kind offers \(offered.joined(separator: ", "))"
        }
    }

    /// The errors of a placement by the definition, with their places in the event's data.
    ///
    /// - Parameter stored: configuration of the widget if it has been placed; see ``problems(with:replacing:family:)``.
    package func problems(
        with resolved: ResolvedPlacement, replacing stored: WidgetConfiguration = .empty
    ) -> [ModelError] {
        let configuration = resolved.placement.configuration
        return problems(withPlaceOf: resolved.placement)
            + Self.problems(
                Self.new(resolved.problems, of: configuration, replacing: stored), below: "/configuration")
    }

    /// The errors of a placement apart from those of its configuration, with their places in the event's data.
    package func problems(withPlaceOf placement: WidgetPlacement) -> [ModelError] {
        let family = placement.family
        var problems: [ModelError] = []
        if !isEligibleForWidgets {
            problems.append(
                ModelError(message: "kind \(Text.quoted(name)) is not eligible for widgets", pointer: "/kind"))
        }
        if !families.contains(family) {
            let supported = families.map(\.name).joined(separator: ", ")
            problems.append(
                ModelError(
                    message: "kind \(Text.quoted(name)) does not support \(family.name); expected one of \(supported)",
                    pointer: "/family"))
        }
        return problems + Self.problems(placement.environment.problems(for: variesBy), below: "/environment")
    }

    /// The errors of a configuration by the definition, with their places in the event's data.
    ///
    /// - Parameter stored: configuration of the widget. Its values that the definition does not allow any more are
    ///   no errors of a change that leaves them as they are.
    package func problems(
        with configuration: WidgetConfiguration, replacing stored: WidgetConfiguration = .empty, family: WidgetFamily
    ) -> [ModelError] {
        let problems = intent?.resolve(configuration, family: family).problems ?? []
        return Self.problems(Self.new(problems, of: configuration, replacing: stored), below: "/configuration")
    }

    /// The errors of values that a widget does not have yet.
    private static func new(
        _ problems: [ModelError], of configuration: WidgetConfiguration, replacing stored: WidgetConfiguration
    ) -> [ModelError] {
        guard !problems.isEmpty, !stored.isEmpty else { return problems }
        let (new, old) = (configuration.value, stored.value)
        return problems.filter { problem in
            guard let name = JSONPointer(problem.pointer)?.tokens.first else { return true }
            return new[name] != old[name]
        }
    }

    private static func problems(_ problems: [ModelError], below pointer: String) -> [ModelError] {
        problems.map { $0.moved(below: pointer) }
    }

    /// The identity of the timeline that a widget of this kind shows.
    package func identity(of placement: WidgetPlacement) -> TimelineIdentity { resolve(placement).identity }

    package func resolve(_ placement: WidgetPlacement) -> ResolvedPlacement {
        let given = placement.configuration
        let resolution = intent?.resolve(given, family: placement.family)
        let effective = resolution?.effective ?? given
        return ResolvedPlacement(
            placement: placement,
            identity: TimelineIdentity(
                app: placement.app, kind: name, sharing: sharing, variesBy: variesBy, family: placement.family,
                configuration: effective, environment: placement.environment, user: placement.user),
            configuration: effective == given ? nil : given.canonical, problems: resolution?.problems ?? [])
    }
}

/// Timeline of a widget, with the parts of its configuration that the timeline's identity leaves out.
package struct ResolvedPlacement: Sendable {
    package let placement: WidgetPlacement
    package let identity: TimelineIdentity
    /// Canonical configuration as the person set it; nil for that of the identity.
    package let configuration: String?
    /// Errors of values, which defaults replace. Pointers are into the configuration.
    package let problems: [ModelError]
}

/// Definition of an app in a manifest.
package struct AppDefinition: Hashable, Sendable {
    /// Bundle identifier.
    package var name: String
    /// Lifts budgets and spacing.
    package var developerMode: Bool
    /// The kinds, with unique names.
    package var kinds: [KindDefinition]

    package init(name: String, developerMode: Bool = false, kinds: [KindDefinition]) {
        self.name = name
        self.developerMode = developerMode
        self.kinds = kinds
    }
}

/// Template of the links that a kind's widgets open, with parameters in braces: `rangers://hero/{hero}`.
package struct LinkTemplate: Hashable, Sendable {
    package static let maximumBytes = 2048

    /// Texts around the parameters: before the first, between any two, and after the last.
    private let texts: [String]
    /// Names of the parameters in the template.
    package let parameters: [String]

    /// - Throws: `ModelError` if the text is not a template.
    package init(_ text: String) throws(ModelError) {
        func failed(_ message: String) -> ModelError { ModelError(message: message) }
        guard text.utf8.count <= Self.maximumBytes, !Text.containsControlCharacter(text) else {
            throw failed("expected at most \(Self.maximumBytes) bytes without control characters")
        }
        var texts: [String] = []
        var parameters: [String] = []
        var rest = text[...]
        while let open = rest.firstIndex(where: { $0 == "{" || $0 == "}" }) {
            let after = rest[rest.index(after: open)...]
            guard rest[open] == "{", let close = after.firstIndex(where: { $0 == "{" || $0 == "}" }),
                after[close] == "}", close > after.startIndex
            else { throw failed("expected a URL with names of parameters in braces, found \(Text.quoted(text))") }
            texts.append(String(rest[..<open]))
            parameters.append(String(after[..<close]))
            rest = after[after.index(after: close)...]
        }
        texts.append(String(rest))
        // The scheme is no part of a configuration.
        guard IntentParameter.hasScheme(texts[0]) else {
            throw failed("expected an absolute URL, found \(Text.quoted(text))")
        }
        (self.texts, self.parameters) = (texts, parameters)
    }

    /// The link of a widget. Values are percent-encoded and separated by commas; a missing value is empty.
    package func url(for configuration: WidgetConfiguration) -> String {
        let values = parameters.isEmpty ? JSONValue.null : configuration.value
        return zip(parameters, texts.dropFirst()).reduce(texts[0]) { $0 + Self.text(of: values[$1.0]) + $1.1 }
    }

    private static func text(of value: JSONValue?) -> String {
        switch value {
        case nil, .null?: ""
        case .string(let text)?: Text.percentEncoded(text)
        case .bool(let value)?: value ? "true" : "false"
        case .number(let number)?: Text.percentEncoded(number.canonical)
        case .array(let values)?: values.map(text).joined(separator: ",")
        case .object(let object)?:
            if let identifier = object["identifier"] {
                text(of: identifier)
            } else {
                "\(text(of: object["latitude"])),\(text(of: object["longitude"]))"
            }
        }
    }
}

extension KindDefinition {
    /// Link of a widget with a configuration, if the kind has one.
    package func link(for configuration: WidgetConfiguration, family: WidgetFamily) -> String? {
        widgetURL.flatMap { try? LinkTemplate($0) }?.url(for: effective(configuration, family: family))
    }
}

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
            "maxBatch": .count(maxBatch), "timeout": timeout.jsonSeconds,
            "minimumSpacing": minimumSpacing.jsonSeconds,
        ]
        if let dailyBudget {
            object["dailyBudget"] = ["minimum": .count(dailyBudget.minimum), "maximum": .count(dailyBudget.maximum)]
        }
        object["placeholder"] = placeholder
        if !volatileFields.isEmpty { object["volatileFields"] = .texts(volatileFields) }
        object["accentColor"] = accentColor.map { .string($0) }
        object["backgroundColor"] = backgroundColor.map { .string($0) }
        object["dormantAfter"] = dormantAfter.jsonSeconds
        // Left out where it is the default, as in the definitions that were stored before there was such a field.
        if reloadTolerance != Self.defaultReloadTolerance {
            object["reloadTolerance"] = reloadTolerance.jsonSeconds
        }
        if let freshnessObjective { object["freshnessObjective"] = freshnessObjective.jsonSeconds }
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

    /// Reads the definition of a request, and returns all its errors, or none with the definition.
    package static func validate(_ json: JSONValue) -> (definition: KindDefinition?, errors: [ModelError]) {
        var errors: [ModelError] = []
        let definition = read(json, at: "", .request, &errors)
        if definition == nil, errors.isEmpty { errors.append(ModelError(message: "unreadable")) }
        return (errors.isEmpty ? definition : nil, errors)
    }

    /// Nil only when there are errors.
    static func read(
        _ json: JSONValue, at pointer: String, _ form: Form, _ errors: inout [ModelError]
    ) -> KindDefinition? {
        guard
            var members = MemberChecker(json, at: pointer, isStored: form.isStored, errors: &errors)
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
            members.fail(in: "volatileFields", "at most \(maximumVolatileFields) are allowed")
        }
        let accentColor = members.string("accentColor")
        let backgroundColor = members.string("backgroundColor")
        let dormantAfter = members.duration("dormantAfter", in: .seconds(3600)...(.seconds(3650 * 86_400)))
        let reloadTolerance = members.duration("reloadTolerance", in: .zero...(.seconds(86_400)))
        let freshnessObjective = members.duration("freshnessObjective", in: .seconds(1)...(.seconds(86_400)))
        let snapshots = members.boolean("snapshots")
        let intent = members.object("intent", IntentDefinition.read)
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
            members.fail(in: "families", "names no family that this version knows")
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
                members.fail(in: "widgetURL", MemberChecker.unexpected(unknown, expected: "a parameter", among: names))
            } else if !members.isStored, let problem = IntentParameter.unsafeScheme(of: text) {
                members.fail(in: "widgetURL", problem.message)
            }
        } catch {
            members.fail(in: "widgetURL", error.message)
        }
        return text
    }

    private static func readProviderURL(_ members: inout MemberChecker, _ form: Form) -> String? {
        guard case .manifest(let appProvider) = form else { return members.providerURL("providerURL") }
        guard members.optional("provider") == nil else { return members.object("provider") { $0.providerURL("url") } }
        if appProvider == nil { members.fail(in: "provider", "is missing, and the app names no default") }
        return appProvider
    }

    private static func readDailyBudget(_ members: inout MemberChecker, _ form: Form) -> DailyBudget? {
        let key = if case .manifest = form { "budget" } else { "dailyBudget" }
        return members.object(key) { budget in
            let standard = DailyBudget()
            let minimum = budget.integer("minimum", in: 0...100_000).map(Int.init) ?? standard.minimum
            let maximum = budget.integer("maximum", in: 1...100_000).map(Int.init) ?? standard.maximum
            if budget.errors.isEmpty, minimum > maximum {
                budget.fail(in: "minimum", "must not be greater than the maximum, \(maximum)")
            }
            return DailyBudget(minimum: minimum, maximum: maximum)
        }
    }

    private static func readPlaceholder(_ members: inout MemberChecker) -> JSONValue? {
        guard let placeholder = members.required("placeholder") else { return nil }
        let canonical = placeholder.canonical
        let count = canonical.utf8.count
        if count > maximumPlaceholderBytes {
            members.fail(in: "placeholder", "must be at most \(maximumPlaceholderBytes) bytes, is \(count)")
        }
        if canonical.hasEscapedNull { members.fail(in: "placeholder", "must not contain U+0000") }
        return placeholder
    }
}

extension AppDefinition {
    /// Greatest number of kinds of an app.
    package static let maximumKinds = 1000

    /// Reads one app of a manifest, `{"app", "developerMode"?, "provider"?, "signingSecret"?, "kinds": […]}`, and
    /// reports all its errors. The signing secret is left to the caller.
    package static func validate(
        manifest json: JSONValue
    ) -> (definition: AppDefinition?, errors: [ModelError]) {
        var errors: [ModelError] = []
        let definition = read(json, &errors)
        if definition == nil, errors.isEmpty { errors.append(ModelError(message: "unreadable")) }
        return (errors.isEmpty ? definition : nil, errors)
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
            members.fail(in: "app", "expected a bundle identifier such as com.example.bank, found \(Text.quoted(name))")
        }
        let developerMode = members.boolean("developerMode")
        // An unusable provider counts as "", so that it is reported once, not for each kind without its own provider.
        let hasProvider = members.optional("provider") != nil
        let provider = members.object("provider") { $0.providerURL("url") } ?? (hasProvider ? "" : nil)
        _ = members.optional("signingSecret")
        var kinds: [KindDefinition] = []
        switch members.required("kinds") {
        case .array(let values) where values.isEmpty:
            members.fail(in: "kinds", "expected at least one kind")
        case .array(let values) where values.count > maximumKinds:
            members.fail(in: "kinds", "at most \(maximumKinds) kinds are allowed, found \(values.count)")
        case .array(let values):
            kinds = readKinds(values, provider: provider, &members)
        case let value?:
            members.fail(in: "kinds", "expected an array, found \(value.kind.name)")
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
