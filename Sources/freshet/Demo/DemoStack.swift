import SampleProvider
import WidgetEvents
import WidgetModel
import WidgetStore

/// A stack of the first person's bank widgets, planned by the workers while the demo runs.
struct DemoStack: Sendable {
    private let key: StackPlan.Key
    private let arrangement: StackArrangement

    init(_ world: SampleWorld) {
        let first = world.placement(0)
        key = StackPlan.Key(app: first.app, user: first.user, device: first.device, stack: "home")
        let widgets = (0..<min(world.widgets, 3)).map { world.placement($0).widget }
        // Suggestions would place further widgets, which the demo's count of events does not know.
        arrangement = StackArrangement(device: first.device, name: "home", widgets: widgets, suggestions: false)
    }

    /// Events that arrange the stack and donate a view of recent purchases.
    var events: [FreshetEvent] {
        let viewed = DonatedInteraction(
            kind: "RecentPurchases", configuration: SampleWorld.configuration([("card", "acme")]),
            timeZone: "Europe/London")
        return [
            FreshetEvent(app: key.app, user: key.user, .person(.stack(arrangement))),
            FreshetEvent(app: key.app, user: key.user, .interaction(viewed)),
        ]
    }

    /// Asks for the schedule, waits until the workers have planned it, and describes it; at most half a minute.
    func lines(from store: WidgetStore) async throws -> [String] {
        try await store.wantSchedule(key)
        let deadline = ContinuousClock.now + .seconds(30)
        while ContinuousClock.now < deadline {
            let stored = try await store.query(
                .readSchedules(app: key.app, user: key.user, stack: key.stack, device: key.device)
            ).first
            if let text = stored?.schedule, let plan = StackPlan(stored: try JSONValue.parse(text), key: key) {
                return describe(plan)
            }
            try await Task.sleep(for: .milliseconds(100))
        }
        return ["  stack \(key.stack) of \(key.user): not planned within 30 s"]
    }

    private func describe(_ plan: StackPlan) -> [String] {
        guard let last = plan.schedule.rotations.last(where: { $0.from <= plan.plannedAt }) else {
            return ["  stack \(key.stack) of \(key.user): none of its widgets is placed"]
        }
        let next = plan.schedule.rotations.first { $0.from > plan.plannedAt }
        return [
            "  stack \(key.stack) of \(key.user): \(name(last)) is on top: \(last.reason.words)",
            next.map { "    next \(name($0)) at \($0.from.rfc3339): \($0.reason.words)" },
        ].compactMap { $0 }
    }

    private func name(_ rotation: StackSchedule.Rotation) -> String { rotation.item.widget ?? "a suggestion" }
}
