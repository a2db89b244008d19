import HTTPTypes
import Hummingbird
import JSON
import WidgetEvents
import WidgetModel
import WidgetRepresentation
import WidgetStore

/// Routes of stacks: their arrangement, and the schedule of their top widgets.
extension RouteDependencies {
    /// Time for which a first reader waits for the plan, and the pause between looks for it.
    private static let patience = Duration.seconds(10)
    private static let betweenLooks = Duration.milliseconds(200)
    /// Polling interval while the change feed is down.
    private static let lookAgain = Duration.seconds(2)

    var stackRoutes: [APIRoute] {
        [
            APIRoute(
                "readSchedule", .get, "users/{user}/stacks/{stack}/schedule", .own(.widgetsRead),
                query: ["device", "wait"], handle: read),
            APIRoute(
                "explainStack", .get, "users/{user}/stacks/{stack}/explanation", .own(.widgetsRead), query: ["device"],
                handle: explain),
            change(
                "arrangeStack", .put, "users/{user}/stacks/{stack}", .stackChanged,
                members: ["device", "widgets", "smartRotate", "suggestions"]),
            change(
                "turnStack", .post, "users/{user}/stacks/{stack}/turns", .stackTurned, members: ["device", "widget"]),
            change(
                "replaceShortcuts", .put, "users/{user}/shortcuts", .shortcutsReplaced,
                members: ["device", "shortcuts"]),
            change(
                "donateInteraction", .post, "users/{user}/donations", .interactionDonated,
                members: ["kind", "configuration", "device", "timeZone"]),
            APIRoute("clearHabits", .delete, "users/{user}/habits", .own(.widgetsWrite), handle: clearHabits),
        ]
    }

    // MARK: Changing

    /// Clears habits in the database at once; donations that wait in Kafka are learned afterwards.
    private func clearHabits(_ call: APICall) async throws -> Response {
        let user = try call.path("user")
        if let own = call.user, !Text.equal(own, user) {
            throw Problem.forbidden("a token of one user changes stacks, habits and devices of this user only")
        }
        let cleared = try await store.clearHabits(of: user, app: call.app)
        return Response(["cleared": .bool(cleared)])
    }

    // MARK: Reading

    private func read(_ call: APICall) async throws -> Response {
        let key = try await key(call)
        let wait = try call.integer("wait", in: 0...Self.longestWait, default: 0)
        let known = EntityTags(call.request.headers[values: .ifNoneMatch])
        let began = ContinuousClock.now
        var watch: TimelineChanges.Watch?
        while true {
            guard let found = try await schedule(key), let json = found.schedule else {
                guard began.duration(to: .now) < Self.patience else { throw Problem.scheduleNotPlanned }
                try await Task.sleep(for: Self.betweenLooks)
                continue
            }
            let tag = "W/\"\(found.revision)\""
            guard known.contain(tag) else { return Response(Array(json.utf8), tag, revision: found.revision) }
            let left = Duration.seconds(wait) - began.duration(to: .now)
            guard left > .zero else { return Response(nil, tag, revision: found.revision) }
            // Read once more after the watch has begun, so that no change is missed.
            guard let watch else {
                watch = try self.watch(.poll, [.timeline(key.id)], for: call)
                continue
            }
            _ = await watch.wait(atMost: min(left, changes.isLive ? changes.patience : Self.lookAgain))
            try await call.checkToken()
        }
    }

    /// Reasons why each widget of a stack is or is not on top, as `freshet explain --stack` prints them.
    private func explain(_ call: APICall) async throws -> Response {
        let key = try await key(call)
        let stacks = try await store.explainStacks(
            named: key.stack, of: key.user, app: key.app, policy: resources.rotation, at: WallClock.now())
        guard let stack = stacks.first(where: { Text.equal($0.stack.device, key.device) }) else {
            throw Problem.notFound
        }
        return Response(stack.json)
    }

    /// The stack that a request is about. Without a device, it must be the only one of its name.
    private func key(_ call: APICall) async throws -> StackPlan.Key {
        let (user, stack) = (try call.path("user"), try call.path("stack"))
        // A device must not learn whether another user exists.
        if let own = call.user, !Text.equal(own, user) { throw Problem.notFound }
        if let device = try call.identifier("device") {
            return StackPlan.Key(app: call.app, user: user, device: device, stack: stack)
        }
        let found = try await store.stacks(of: user, app: call.app).filter { Text.equal($0.name, stack) }
        guard let device = found.first?.device else { throw Problem.notFound }
        guard found.count == 1 else {
            throw Problem.parameter("device", "is needed: \(found.count) devices have a stack of this name")
        }
        return StackPlan.Key(app: call.app, user: user, device: device, stack: stack)
    }

    /// The stored schedule. Requests a plan if the schedule was not read lately.
    private func schedule(_ key: StackPlan.Key) async throws -> ReadSchedule? {
        let found = try await store.query(
            .readSchedules(app: key.app, user: key.user, stack: key.stack, device: key.device)
        ).first
        if found?.schedule == nil {
            let stacks = try await store.stacks(of: key.user, app: key.app)
            let exists = stacks.contains { Text.equal($0.name, key.stack) && Text.equal($0.device, key.device) }
            guard exists else { throw Problem.notFound }
        }
        if let found, !found.isReadLongAgo { return found }
        try await store.wantSchedule(key)
        return found
    }
}
