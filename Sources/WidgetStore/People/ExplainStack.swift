import PostgresClient
package import WidgetModel

/// A stack with its plan, and why its widgets are where they are.
package struct ExplainedStack: Sendable {
    package let stack: StackArrangement
    package let plan: StackPlan
    package let explanation: StackExplanation
}

extension WidgetStore {
    /// Explains a user's stacks as they are planned at a time. A schedule that is published is the one planned from.
    package func explainStacks(
        named name: String, of user: String, app: String, policy: RotationPolicy, at time: Timestamp
    ) async throws -> [ExplainedStack] {
        let directory = try await DirectoryCache(pool: pool).refresh()
        guard let registered = directory.apps[app] else { return [] }
        let person = (appID: registered.id, user: user)
        let material = try await StackMaterial.read([person], from: pool, directory)
        guard material.isReadable(person) else {
            throw PostgresError(.decoding, "stored state of a person of app \(app)")
        }
        let stored = try await query(.readSchedules(app: app, user: user, stack: name, device: nil))
        return material.stacks(of: person).filter { Text.equal($0.name, name) }.compactMap { stack in
            let key = StackPlan.Key(app: app, user: user, device: stack.device, stack: name)
            let schedule = stored.first { Text.equal($0.device, stack.device) }
            let previous = schedule?.schedule.flatMap { StackPlan(stored: $0, key: key) }
            let planner = material.planner(for: stack.device, of: person, app: app, policy: policy, at: time)
            let suggestions = planner.suggestions(with: previous, before: time)
            guard let plan = planner.plan(key, after: previous, at: time),
                let own = planner.planner(of: name, suggestions: suggestions, at: time)
            else { return nil }
            var explanation = StackExplanation(of: own, plan: plan, at: time)
            if previous == nil { explanation.hold = StackExplanation.unplannedHold(isRead: schedule != nil) }
            return ExplainedStack(stack: stack, plan: plan, explanation: explanation)
        }
    }
}
