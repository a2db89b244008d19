import WidgetModel
import WidgetStore

/// Whose urgent timelines a look at what is due has left behind although they had waited for long: new ones must not go
/// before them.
///
/// What has only just become due does not count. Under a load of small requests the claim loop nearly always leaves something
/// for its next turn, and if that kept ingest from claiming what it marks, the loop would have so much more to do that it
/// left even more. So a new request overtakes one that has waited for the patience and until the next look for all, not longer.
struct LeftBehind: Equatable, Sendable {
    /// How long urgent work may have waited before nothing of its provider may overtake it.
    static let patience = Duration.milliseconds(100)

    /// Nobody has looked: there may be anything.
    static let unknown = LeftBehind(isOfAll: true)

    /// Providers of which something was left behind.
    private(set) var providers: Set<ProviderKey> = []
    /// It was for want of room for any provider.
    private(set) var isOfAll = false

    init() {}

    private init(isOfAll: Bool) {
        self.isOfAll = isOfAll
    }

    /// - Parameters:
    ///   - due: all that is due.
    ///   - targets: the kinds that may be claimed; what is due of others waits for something else than room.
    ///   - plan: what of it is claimed.
    init(due: [DueWork.Row], targets: [Int32: ClaimTarget], plan: ClaimPlan) {
        var planned: [ClaimRoom.Queue: Int] = [:]
        for wish in plan.wishes { planned[ClaimRoom.Queue(kindID: wish.kindID, lane: wish.lane)] = wish.count }
        for row in due where row.lane.isUrgent && row.waited >= Self.patience {
            guard let target = targets[row.kindID],
                row.count > planned[ClaimRoom.Queue(kindID: row.kindID, lane: row.lane), default: 0]
            else { continue }
            providers.insert(target.provider)
            if plan.isFull || plan.isPoolBusy { isOfAll = true }
        }
    }
}
