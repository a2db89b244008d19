import FreshetService
import WidgetModel
import WidgetRepresentation
import WidgetStore

extension ExplainCommand {
    /// Explains the stacks of a name, one on each device.
    func explainStack(_ name: String, of user: String, _ store: WidgetStore, _ settings: Settings) async throws {
        let stacks = try await store.explainStacks(
            named: name, of: user, app: app, policy: settings.stacks, at: WallClock.now()
        ).filter { stack in device.map { Text.equal($0, stack.stack.device) } ?? true }
        guard !stacks.isEmpty else {
            throw CommandFailure(
                .failure,
                "user \(Text.quoted(user)) of app \(Text.quoted(app)) has no stack \(Text.quoted(name)) with widgets")
        }
        output.print(
            .array(stacks.map(\.json)),
            or: stacks.map(Self.text).joined(separator: "\n\n"))
    }

    private static func text(_ stack: ExplainedStack) -> String {
        var lines = ["stack \(stack.stack.name) on device \(stack.stack.device)"]
        if let hold = stack.explanation.hold { lines.append("  held: \(hold)") }
        lines += ["", "now"]
        for item in stack.explanation.items {
            let name = item.widget ?? "suggestion of \(item.content.kind) \(item.content.configuration.canonical)"
            let value = item.value.map { " (value \(JSONValue.rounded($0).canonical))" } ?? ""
            lines.append("  \(item.isOnTop ? "*" : " ") \(name)\(value): \(item.sentence)")
        }
        lines += ["", "until \(stack.plan.until.rfc3339)"]
        for rotation in stack.plan.schedule.rotations {
            lines.append("  \(rotation.from.rfc3339)  \(name(of: rotation.item)): \(rotation.reason.words)")
        }
        return lines.joined(separator: "\n")
    }

    private static func name(of item: StackSchedule.Item) -> String {
        switch item {
        case .widget(let id): id
        case .suggestion(let content): "suggestion of \(content.kind) \(content.configuration.canonical)"
        }
    }
}
