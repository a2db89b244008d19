package import WidgetModel

/// All that explains why a widget's timeline was or was not reloaded, and when it will be. No content, no secret.
package struct WidgetExplanation: Sendable {
    package let widget: String
    package let app: String
    package let kind: KindDefinition
    package let isDeveloperMode: Bool
    package let family: WidgetFamily
    package let user: String
    package let device: String
    package let placedAt: Timestamp
    /// `nil` once the widget is removed, or while its timeline is being replaced; so the timeline.
    package let timelineID: TimelineID?
    package let isRemoved: Bool
    package let timeline: Timeline?
    package let readAt: Timestamp

    package struct Timeline: Sendable {
        package let facts: ReloadFacts
        /// Widgets that show it, counted up to 65.
        package let widgets: Int
        /// The last counted view of one of them.
        package let viewedAt: Timestamp?
        package let content: Content?
        /// Causes of the latest request, decision and reload of everyone, as far as they are known.
        package let causes: [ExplainedCause]
    }

    /// Stored content, described.
    package struct Content: Hashable, Sendable {
        package let revision: Int64
        package let storedAt: Timestamp
        package let bytes: Int
    }

    package var rules: ReloadRules { ReloadRules(kind, developerMode: isDeveloperMode) }

    package var explanation: Explanation? { timeline.map { Explanation($0.facts, rules: rules) } }
}

/// An event that affected a timeline, with its position in Kafka.
package struct ExplainedCause: Hashable, Sendable {
    package enum Role: String, CaseIterable, Sendable {
        /// The latest request to a person, a device or a widget that hit the timeline.
        case request
        /// The request of the last decision.
        case decision
        /// The latest reload of everyone.
        case kind
    }

    package let role: Role
    /// Nil for a cause that is no event, such as the policy.
    package let position: EventPosition?
    package let reason: ReloadReason?
    /// The database's time when it was applied.
    package let appliedAt: Timestamp?
}
