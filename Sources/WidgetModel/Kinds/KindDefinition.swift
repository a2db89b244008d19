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

    /// A family that the kind supports, for values without a widget.
    package var anyFamily: WidgetFamily { families[0] }

    /// The first error of a placement by the definition, with its place in the event's data.
    package func problem(with resolved: ResolvedPlacement) -> ModelError? {
        let family = resolved.placement.family
        guard families.contains(family) else {
            let supported = families.map(\.name).joined(separator: ", ")
            return ModelError(
                message: "kind \(Text.quoted(name)) does not support \(family.name); expected one of \(supported)",
                pointer: "/family")
        }
        if let problem = resolved.placement.environment.problem(for: variesBy) {
            return ModelError(message: problem.message, pointer: "/environment\(problem.pointer)")
        }
        return Self.problem(resolved.problems)
    }

    /// The first error of a configuration by the definition, with its place in the event's data.
    package func problem(with configuration: WidgetConfiguration, family: WidgetFamily) -> ModelError? {
        Self.problem(intent?.resolve(configuration, family: family).problems ?? [])
    }

    private static func problem(_ problems: [ModelError]) -> ModelError? {
        problems.first.map { ModelError(message: $0.message, pointer: "/configuration\($0.pointer)") }
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
