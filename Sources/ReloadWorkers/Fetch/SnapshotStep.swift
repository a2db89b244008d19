import WidgetModel
import WidgetStore

/// The timelines of a batch that are given a snapshot before their timeline, and how long that may take.
enum SnapshotStep {
    /// The longest that a timeline waits for its snapshot.
    static let longest = Duration.seconds(2)
    /// How long a provider without the endpoint is not asked again.
    static let absence = Duration.seconds(600)

    /// Zero for kinds that have none.
    static func limit(for kind: RegisteredKind) -> Duration {
        kind.definition.hasSnapshots ? min(kind.definition.timeout, longest) : .zero
    }

    /// Timelines that were never rendered, at their first attempt, of widgets that somebody has just placed. A timeline that
    /// other widgets show already has content, and nobody waits for an import.
    static func wanted(of batch: FetchBatch) -> [FetchItem] {
        batch.items.filter { item in
            item.kind.definition.hasSnapshots && item.lane == .interactive && item.timeline.renderedAt == nil
                && item.timeline.attempts == 0
        }
    }
}
