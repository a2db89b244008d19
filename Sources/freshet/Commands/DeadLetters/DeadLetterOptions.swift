import ArgumentParser
import WidgetModel
import WidgetStore

struct DeadLetterOptions: ParsableArguments {
    @Option(help: "Only of this app, by its bundle identifier.", transform: OptionText.identifier)
    var app: String?

    @Flag(help: "Only messages without a readable app.")
    var noApp = false

    @Option(
        name: .customLong("cause"), parsing: .singleValue,
        help: ArgumentHelp(
            "Only of this cause: \(DeadLetterCause.allCases.map(\.rawValue).joined(separator: ", ")); "
                + "can be given several times.", valueName: "cause"),
        transform: OptionText.cause)
    var causes: [DeadLetterCause] = []

    @Option(help: "Only from this topic.")
    var topic: String?

    @Option(help: "Only from this partition.", transform: OptionText.number(0...Int32.max))
    var partition: Int32?

    @Option(help: "Only those kept at or after this time, RFC 3339.", transform: OptionText.time)
    var since: Timestamp?

    @Option(help: "Only those kept before this time, RFC 3339.", transform: OptionText.time)
    var until: Timestamp?

    @Option(
        name: .customLong("id"), parsing: .singleValue,
        help: ArgumentHelp("Only this one; can be given several times.", valueName: "id"))
    var ids: [Int64] = []

    func validate() throws {
        if app != nil, noApp { throw ValidationError("--app and --no-app: expected one of them") }
        if let since, let until, until <= since { throw ValidationError("--until: expected a time after --since") }
        guard ids.count <= 1_000 else { throw ValidationError("--id: expected 1000 or fewer") }
    }

    var filter: DeadLetterFilter {
        var filter = DeadLetterFilter(owner: app.map { .app($0) } ?? (noApp ? .none : .any), causes: causes)
        filter.topic = topic
        filter.partition = partition
        filter.since = since
        filter.until = until
        filter.ids = ids
        return filter
    }

    var namesOwner: Bool { app != nil || noApp || !ids.isEmpty }

    var owner: String {
        if let app { return Text.quoted(app) }
        if noApp { return "no app" }
        return ids.isEmpty ? "all apps" : "the given ids"
    }
}

/// Filter of the dead letters that a command changes, which must name their owner.
struct DeadLetterTarget: ParsableArguments {
    @OptionGroup var options: DeadLetterOptions

    @Flag(help: "Of all apps, and those without an app.")
    var allApps = false

    func validate() throws {
        if allApps {
            guard options.app == nil, !options.noApp else {
                throw ValidationError("--all-apps: expected without --app and --no-app")
            }
        } else if !options.namesOwner {
            throw ValidationError("expected --app, --no-app, --id or --all-apps")
        }
    }
}
