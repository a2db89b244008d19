// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import Hummingbird
import JSON
import WidgetEvents
import WidgetModel
import WidgetStore

/// Routes of stacks: their arrangement, and the schedule of their top widgets.
extension Routes {
    /// Time for which a first reader waits for the plan.
    private static let planningTime = Duration.seconds(10)

    var stackRoutes: [APIRoute] {
        [
            APIRoute(
                "readSchedule", .get, "users/{user}/stacks/{stack}/schedule", .own(.widgetsRead),
                query: ["device", "wait"]
            ) { call in
                let key = try await stackKey(call)
                let wait = try call.integer("wait", in: 0...Self.longestWait, default: 0)
                let known = EntityTags(call.request.headers[values: .ifNoneMatch])
                let (revision, json) = try await schedule(
                    of: key, known: known, wait: .seconds(wait), for: call.caller)
                let tag = EntityTags.tag(revision: revision)
                return Response(known.contain(tag) ? nil : Array(json.utf8), tag, revision: revision)
            },
            APIRoute(
                "explainStack", .get, "users/{user}/stacks/{stack}/explanation", .own(.widgetsRead), query: ["device"]
            ) { call in
                let key = try await stackKey(call)
                let stacks = try await stacks(named: key.stack, of: key.user, for: call.caller)
                guard let stack = stacks.first(where: { Text.equal($0.stack.device, key.device) }) else {
                    throw Problem.notFound
                }
                return Response(stack.json)
            },
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
            APIRoute("clearHabits", .delete, "users/{user}/habits", .own(.widgetsWrite)) { call in
                Response(["cleared": .bool(try await clearHabits(of: try call.path("user"), for: call.caller))])
            },
        ]
    }

    /// Clears habits in the database at once; donations that wait in Kafka are learned afterwards.
    private func clearHabits(of user: String, for caller: Caller) async throws -> Bool {
        if let own = caller.user, !Text.equal(own, user) {
            throw Problem.forbidden("a token of one user changes stacks, habits and devices of this user only")
        }
        return try await store.clearHabits(of: user, app: caller.app)
    }

    /// Reasons why each widget of a user's stacks is or is not on top, as `freshet explain --stack` prints them.
    func stacks(named name: String, of user: String, for caller: Caller) async throws -> [ExplainedStack] {
        try await store.explainStacks(
            named: name, of: user, app: caller.app, policy: resources.rotation, at: Timestamp.now())
    }

    /// The stack that a request is about. Without a device, it must be the only one of its name.
    private func stackKey(_ call: APICall) async throws -> StackPlan.Key {
        let (user, stack) = (try call.path("user"), try call.path("stack"))
        try call.caller.checkSight(of: user)
        if let device = try call.identifier("device") {
            return StackPlan.Key(app: call.app, user: user, device: device, stack: stack)
        }
        let found = try await store.stacks(of: user, app: call.app).filter { Text.equal($0.name, stack) }
        guard let device = found.first?.device else { throw Problem.notFound }
        guard found.count == 1 else {
            throw Problem.parameter("device", detail: "is needed: \(found.count) devices have a stack of this name")
        }
        return StackPlan.Key(app: call.app, user: user, device: device, stack: stack)
    }

    /// The revision and the JSON of a stack's schedule.
    ///
    /// - Parameter wait: longest wait for another one than the known one.
    private func schedule(
        of key: StackPlan.Key, known: EntityTags, wait: Duration, for caller: Caller
    ) async throws -> (revision: Int64, json: String) {
        let began = ContinuousClock.now
        var watch: TimelineChanges.Watch?
        while true {
            guard let found = try await storedSchedule(of: key), let json = found.schedule else {
                guard began.duration(to: .now) < Self.planningTime else { throw Problem.scheduleNotPlanned }
                try await Task.sleep(for: Self.betweenLooks)
                continue
            }
            let left = wait - began.duration(to: .now)
            guard left > .zero, known.contain(EntityTags.tag(revision: found.revision)) else {
                return (found.revision, json)
            }
            // Read once more after the watch has begun, so that no change is missed.
            guard let watch else {
                watch = try self.watch(.poll, [.timeline(key.id)], for: caller)
                continue
            }
            _ = await watch.wait(atMost: min(left, patience))
            try await caller.checkToken()
        }
    }

    /// The stored schedule. Requests a plan if the schedule was not read lately.
    private func storedSchedule(of key: StackPlan.Key) async throws -> ReadSchedule? {
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
