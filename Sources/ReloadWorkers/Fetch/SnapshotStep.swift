import WidgetModel
import WidgetStore

/// Which of a batch's timelines are given a snapshot before their timeline, and how long that may take.
enum SnapshotStep {
    /// The longest that a timeline waits for its snapshot.
    static let longest = Duration.seconds(2)
    /// How long a provider without the endpoint is not asked again.
    static let absence = Duration.seconds(600)

    /// Zero for kinds that have none.
    static func limit(for kind: RegisteredKind) -> Duration {
        kind.definition.hasSnapshots ? min(kind.definition.timeout, longest) : .zero
    }

    /// What somebody waits for who has just placed it: timelines that were never rendered, at their first attempt. A
    /// timeline that other widgets show already has content, and an import has nobody who waits.
    static func wanted(of batch: ReloadBatch) -> [ClaimedTimeline] {
        guard batch.kind.definition.hasSnapshots else { return [] }
        return batch.timelines.filter { timeline in
            timeline.lane == .interactive && timeline.renderedAt == nil && timeline.attempts == 0
        }
    }
}

extension ReloadBatch {
    /// The body of a request for some of its timelines, or for their snapshots.
    func requestBody(for timelines: [ClaimedTimeline]) -> [UInt8] {
        ProviderRequest(
            kind: kind.definition.name,
            items: timelines.map { ProviderRequest.Item(id: $0.id, identity: $0.identity(of: kind)) }
        ).encode()
    }
}
