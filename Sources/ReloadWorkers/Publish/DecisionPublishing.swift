package import WidgetStore

/// Where decisions are told. Telling is never in the way of a reload: it takes note and returns.
package protocol DecisionPublishing: Sendable {
    /// - Parameter decisions: those of one statement.
    func record(_ decisions: [DecisionRecord])
}
