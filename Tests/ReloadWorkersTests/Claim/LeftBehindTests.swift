import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// Whose new work must not be claimed before what has waited.
struct LeftBehindTests {
    /// Kinds 11 and 12 of one provider, 21 of another.
    private static let targets: [Int32: ClaimTarget] = Dictionary(
        uniqueKeysWithValues: [11, 12, 21].map { kind in
            (kind, ClaimTarget(appID: kind / 10, provider: provider(kind / 10), maxBatch: 100))
        })

    private static func provider(_ app: Int32) -> ProviderKey { ProviderKey(appID: app, url: "http://p\(app)") }

    private static func due(
        _ kindID: Int32, _ lane: ReloadLane = .push, _ count: Int = 5, waited: Duration = LeftBehind.patience
    ) -> DueWork.Row {
        DueWork.Row(kindID: kindID, lane: lane, count: count, waited: waited)
    }

    private static func leftBehind(_ due: [DueWork.Row], _ plan: ClaimPlan = ClaimPlan()) -> LeftBehind {
        LeftBehind(due: due, targets: targets, plan: plan)
    }

    @Test("what has waited for long is left behind of its provider, not of others")
    func providers() {
        let left = Self.leftBehind([Self.due(11), Self.due(21, waited: .zero)])
        #expect(left.providers == [Self.provider(1)] && !left.isOfAll)
        #expect(Self.leftBehind([Self.due(12), Self.due(21)]).providers == [Self.provider(1), Self.provider(2)])
    }

    @Test("what has only just become due does not count, nor patient lanes, nor kinds that nobody may claim")
    func others() {
        let patience = LeftBehind.patience
        #expect(Self.leftBehind([]) == LeftBehind())
        #expect(Self.leftBehind([Self.due(11, waited: patience - .milliseconds(1))]) == LeftBehind())
        #expect(Self.leftBehind([Self.due(11, .scheduled), Self.due(12, .bulk)]) == LeftBehind())
        #expect(Self.leftBehind([Self.due(99)]) == LeftBehind())
    }

    @Test("what is claimed whole is not left behind; what is claimed in part is", arguments: [(5, true), (4, false)])
    func claimed(count: Int, isAll: Bool) {
        let wishes = [
            ClaimWish(kindID: 11, lane: .push, count: count), ClaimWish(kindID: 11, lane: .interactive, count: 9),
        ]
        #expect(Self.leftBehind([Self.due(11)], ClaimPlan(wishes: wishes)).providers.isEmpty == isAll)
    }

    @Test("for want of room for any, it is left behind of all")
    func all() {
        #expect(Self.leftBehind([Self.due(11)], ClaimPlan(isFull: true)).isOfAll)
        #expect(Self.leftBehind([Self.due(11)], ClaimPlan(isHeldBack: true, isPoolBusy: true)).isOfAll)
        #expect(!Self.leftBehind([Self.due(11)], ClaimPlan(isHeldBack: true)).isOfAll)
        #expect(!Self.leftBehind([Self.due(11, waited: .zero)], ClaimPlan(isFull: true)).isOfAll)
        #expect(LeftBehind.unknown.isOfAll)
    }
}
