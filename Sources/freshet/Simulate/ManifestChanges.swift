import ArgumentParser
import FreshetService
import WidgetModel

/// Alternatives of a replay, given as options.
struct ManifestChanges: ParsableArguments {
    @Option(
        help: ArgumentHelp("Budget of a kind: one number, or least and most.", valueName: "[app/]kind=8..70"),
        transform: Change.budget)
    var budget: [Change] = []

    @Option(
        help: ArgumentHelp("Least time between two budgeted reloads of a kind.", valueName: "[app/]kind=15m"),
        transform: Change.spacing)
    var spacing: [Change] = []

    @Option(
        help: ArgumentHelp("Properties by which a kind's timelines differ.", valueName: "[app/]kind=family,locale"),
        transform: Change.variesBy)
    var variesBy: [Change] = []

    @Option(
        help: ArgumentHelp("Whether a kind's timelines belong to users.", valueName: "[app/]kind=shared"),
        transform: Change.sharing)
    var sharing: [Change] = []

    var all: [Change] { budget + spacing + variesBy + sharing }

    /// The alternatives with their names: each change, and all of them.
    func alternatives(of apps: [AppDefinition]) throws(CommandFailure) -> [(name: String, apps: [AppDefinition])] {
        var alternatives: [(name: String, apps: [AppDefinition])] = []
        var together = apps
        for change in all {
            var changed = apps
            try change.apply(to: &changed)
            try change.apply(to: &together)
            alternatives.append((change.name, changed))
        }
        if all.count > 1 { alternatives.append(("all changes", together)) }
        return alternatives
    }

    /// A change of the kinds with a name, of all apps or of one: `Kind` or `app/Kind`.
    struct Change: Sendable {
        let name: String
        let kind: String
        let change: @Sendable (inout KindDefinition) -> Void

        func apply(to apps: inout [AppDefinition]) throws(CommandFailure) {
            var isFound = false
            for app in apps.indices {
                for index in apps[app].kinds.indices {
                    let name = apps[app].kinds[index].name
                    guard Text.equal(name, kind) || Text.equal("\(apps[app].name)/\(name)", kind) else { continue }
                    change(&apps[app].kinds[index])
                    isFound = true
                }
            }
            guard !isFound else { return }
            let names = apps.flatMap { $0.kinds.map(\.name) }
            let meant = Suggestion.word(for: kind, among: names)
            throw CommandFailure(.usage, "the manifest has no kind \(Text.quoted(kind))\(meant)")
        }

        private static func parts(_ text: String, _ form: String) throws -> (kind: String, value: String) {
            let parts = text.split(separator: "=", maxSplits: 1).map(String.init)
            guard parts.count == 2 else { throw ValidationError("\(Text.quoted(text)): expected \(form)") }
            return (parts[0], parts[1])
        }

        @Sendable static func budget(_ text: String) throws -> Change {
            let (kind, value) = try parts(text, "KIND=20 or KIND=8..70")
            let bounds = value.replacing("..", with: ".").split(separator: ".").compactMap { Int($0) }
            guard let least = bounds.first, let most = bounds.last, bounds.count < 3, (1...1_000).contains(least),
                (least...1_000).contains(most)
            else { throw ValidationError("\(Text.quoted(value)): expected a budget such as 20 or 8..70") }
            return Change(name: "budget \(text)", kind: kind) {
                $0.dailyBudget = DailyBudget(minimum: least, maximum: most)
            }
        }

        @Sendable static func spacing(_ text: String) throws -> Change {
            let (kind, value) = try parts(text, "KIND=15m")
            let spacing = try OptionText.duration(value)
            return Change(name: "spacing \(text)", kind: kind) { $0.minimumSpacing = spacing }
        }

        @Sendable static func variesBy(_ text: String) throws -> Change {
            let (kind, value) = try parts(text, "KIND=family,locale or KIND=none")
            var variation: KindVariation = []
            for name in value == "none" ? [] : value.split(separator: ",") {
                guard let one = KindVariation(name: String(name)) else {
                    let known = KindVariation.named.map(\.name).joined(separator: ", ")
                    throw ValidationError("\(Text.quoted(String(name))): expected none, or some of \(known)")
                }
                variation.formUnion(one)
            }
            let result = variation
            return Change(name: "variesBy \(text)", kind: kind) { $0.variesBy = result }
        }

        @Sendable static func sharing(_ text: String) throws -> Change {
            let (kind, value) = try parts(text, "KIND=shared or KIND=perUser")
            guard let sharing = KindSharing(name: value) else {
                throw ValidationError("\(Text.quoted(value)): expected shared or perUser")
            }
            return Change(name: "sharing \(text)", kind: kind) { $0.sharing = sharing }
        }
    }
}
