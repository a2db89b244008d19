// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import FreshetService
import JSON
import PostgresClient
import WidgetAPI
import WidgetEvents
import WidgetModel
import WidgetStore

struct WidgetsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "widgets",
        abstract: "Lists, shows, configures and imports placed widgets.",
        subcommands: [List.self, Show.self, Configure.self, Import.self])

    struct List: AppCommand {
        static let configuration = CommandConfiguration(
            abstract: "Lists an app's widgets by id.",
            discussion: """
                Examples:
                  freshet widgets list --app com.example.bank --user u42
                  freshet widgets list --app com.example.bank --kind DueDate --limit 20 --after w100 --json
                """)

        @Option(help: "Only this user's.")
        var user: String?

        @Option(help: "Only this device's.")
        var device: String?

        @Option(help: "Only of this kind.")
        var kind: String?

        @Option(help: "Most widgets to list.", transform: OptionText.number(1...100_000))
        var limit = 100

        @Option(help: "List those after this id.")
        var after = ""

        @OptionGroup var options: AppOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            let filter = WidgetFilter(app: app, user: user, device: device, kind: kind, after: after)
            let widgets = try await store.query(.listWidgets(filter, limit: limit))
            output.print(
                widgets.map(\.json),
                columns: [
                    "WIDGET": "widget", "KIND": "kind", "FAMILY": "family", "USER": "user", "DEVICE": "device",
                    "TIMELINE": "timeline", "CONFIGURATION": "configuration",
                ])
            if widgets.count == limit, let last = widgets.last {
                Terminal.complain("there may be more: --after \(last.id)")
            }
        }
    }

    struct Show: AppCommand {
        static let configuration = CommandConfiguration(
            abstract: "Shows one widget, also a removed one, as JSON.",
            discussion: """
                Example:
                  freshet widgets show --app com.example.bank w1
                """)

        @Argument(help: "The widget's id.")
        var widget: String

        @OptionGroup var options: AppOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            Terminal.print(try await store.widget(widget, of: app).json)
        }
    }

    struct Import: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Imports placed widgets from a file of JSON lines, in bulk.",
            discussion: """
                Each line is the data of a freshet.widget.placed.v1 event, or of freshet.stack.changed.v1, with an \
                optional "time" (the time of the import if there is none). An older time never overrides a newer widget \
                or stack. New timelines are due at once, after everything that is more urgent. Invalid lines are reported \
                with their numbers; the others are imported, and the exit status is 1.

                Examples:
                  freshet widgets import placements.jsonl
                  zcat placements.jsonl.gz | freshet widgets import -

                Lines:
                  {"app":"com.example.bank","widget":"w1","user":"u42","device":"d1","kind":"DueDate",\
                "family":"systemSmall","environment":{"locale":"en-US","timeZone":"Etc/UTC"}}
                  {"app":"com.example.bank","user":"u42","device":"d1","stack":"home","widgets":["w1","w2"]}
                """)

        @Argument(help: "The file; - is standard input.")
        var file: String

        @Flag(help: "Print the counts as JSON.")
        var json = false

        @OptionGroup var settings: SettingsOptions

        func run() async throws {
            let reader = try LineReader(file, maximumBytes: ImportedItem.maximumBytes)
            let summary = try await settings.withStore { store, _ in
                let directory = try await DirectoryCache(pool: store.pool).refresh()
                return try await store.importItems(
                    reader, of: directory, now: Timestamp.now(),
                    complain: {
                        Terminal.endProgress()
                        Terminal.complain($0)
                    },
                    progress: { Terminal.progress("\($0) lines") })
            }
            Terminal.endProgress()
            if json {
                Terminal.printLine([
                    "widgets": .count(summary.counts.widgets), "stacks": .count(summary.counts.stacks),
                    "timelines": .count(summary.counts.timelines), "older": .count(summary.counts.older),
                    "refused": .count(summary.refused),
                ])
            } else {
                Terminal.print(
                    "imported \(summary.counts.widgets) widgets, \(summary.counts.timelines) new timelines, "
                        + "\(summary.counts.stacks) stacks; "
                        + "\(summary.counts.older) were older than what is stored, \(summary.refused) lines refused")
            }
            guard summary.refused == 0 else { throw CommandFailure(.failure, "not all lines were imported") }
        }
    }
}

extension WidgetStore {
    /// Imports widgets and stacks in chunks.
    ///
    /// - Parameters:
    ///   - now: time of lines without one.
    ///   - complain: called with a message for each refused line.
    ///   - progress: called with the number of lines after each chunk.
    func importItems(
        _ reader: LineReader, of directory: KindDirectory, now: Timestamp, chunk: Int = 10_000,
        complain: (String) -> Void, progress: (Int) -> Void
    ) async throws -> (counts: ImportCounts, refused: Int) {
        var counts = ImportCounts()
        // A chunk is written while the next one is read.
        var writing: Task<ImportCounts, any Error>?
        defer { writing?.cancel() }
        func decode(_ line: [UInt8]) throws(ModelError) -> ImportedItem {
            try ImportedItem(line, of: directory, now: now)
        }
        let refused = try await reader.chunks(of: chunk, decode: decode, complain: complain) { items in
            if let written = try await writing?.value { counts += written }
            writing = Task { try await write(items.map(\.value)) }
            progress(items.last?.line ?? 0)
            return true
        }
        if let written = try await writing?.value { counts += written }
        return (counts, refused)
    }

    private func write(_ items: [ImportedItem]) async throws -> ImportCounts {
        var (widgets, stacks): ([ImportedWidget], [ImportedStack]) = ([], [])
        for item in items {
            switch item {
            case .widget(let widget): widgets.append(widget)
            case .stack(let stack): stacks.append(stack)
            }
        }
        var counts = try await importWidgets(widgets)
        counts += try await importStacks(stacks)
        return counts
    }
}

/// A line of an import: the data of `freshet.widget.placed.v1` or, with a member `stack`, of
/// `freshet.stack.changed.v1`; with an optional `time`.
enum ImportedItem: Sendable {
    case widget(ImportedWidget)
    case stack(ImportedStack)

    static let maximumBytes = 1_048_576
    private static let decoder = EventDecoder(maximumEventBytes: maximumBytes)

    /// - Parameter now: time of lines without one.
    init(_ line: [UInt8], of directory: KindDirectory, now: Timestamp) throws(ModelError) {
        let (time, isStack) = try Self.look(line)
        let event: FreshetEvent
        do throws(EventError) {
            event = try Self.decoder.decode(data: line, of: isStack ? .stackChanged : .widgetPlaced)
        } catch {
            throw ModelError(error)
        }
        let app = try directory.requiredApp(event.app)
        switch event.change {
        case .person(.stack(let arrangement)):
            self = .stack((app: app, user: event.user ?? "", arrangement: arrangement, time: time ?? now))
        case .widget(.placed(let placement)):
            let kind = try directory.requiredKind(placement.kind, of: app)
            let widget = ImportedWidget(placement: placement, kind: kind, time: time ?? now)
            if let error = ModelError(joining: widget.problems) { throw error }
            self = .widget(widget)
        default: throw ModelError(message: "expected a placement or a stack")
        }
    }

    /// Time of a line, and whether it is a stack.
    private static func look(_ line: [UInt8]) throws(ModelError) -> (Timestamp?, isStack: Bool) {
        var reader = JSONReader(line)
        var time: Timestamp?
        var isStack = false
        do throws(JSONError) {
            try reader.beginObject()
            while let key = try reader.nextKey() {
                switch key {
                case "time":
                    if try !reader.takeNull() { time = try reader.timestamp() }
                case "stack":
                    isStack = true
                    try reader.skip()
                default: try reader.skip()
                }
            }
        } catch {
            throw ModelError(message: error.message, pointer: error.pointer)
        }
        return (time, isStack)
    }
}

extension WidgetsCommand {
    struct Configure: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Gives a widget other values of its parameters (freshet.widget.configured.v1).",
            discussion: """
                Parameters that are not named keep their values. A parameter with several values is named several \
                times; without a value it is removed. Values that the kind's intent does not allow are refused; those \
                that the widget has already stay, and their defaults are shown.

                Examples:
                  freshet widgets configure --app com.example.bank w1 card=acme category=groceries
                  freshet widgets configure --app com.example.bank w1 category=
                """)

        @Argument(help: "The widget's id.", transform: OptionText.identifier)
        var widget: String

        @Argument(help: ArgumentHelp("Values of parameters.", valueName: "parameter=value"))
        var values: [String]

        @Option(help: "The app's bundle identifier.", transform: OptionText.identifier)
        var app: String

        @OptionGroup var options: EventOptions

        func run() async throws {
            let (widget, kind) = try await options.settings.withStore { store, _ in
                let widget = try await store.widget(self.widget, of: app)
                return (widget, try await store.kind(widget.kind, of: app).definition)
            }
            let stored = widget.configuration.map { WidgetConfiguration(storedCanonical: $0) } ?? .empty
            let configuration: WidgetConfiguration
            do throws(ModelError) {
                configuration = try stored.assigning(values, of: kind.intent)
            } catch {
                throw ValidationError(error.message)
            }
            guard let family = widget.family else {
                throw CommandFailure(.failure, "this version does not know the widget's family: use a newer one")
            }
            let problems = kind.problems(with: configuration, replacing: stored, family: family)
            if let error = ModelError(joining: problems) { throw CommandFailure(.failure, "\(error)") }
            try await options.publish(
                FreshetEvent(app: app, .widget(.configured(widget: widget.id, configuration))), key: widget.user)
        }
    }
}

extension WidgetConfiguration {
    /// The configuration with values that are assigned on a command line.
    ///
    /// - Parameters:
    ///   - assignments: `name=value`; of a parameter with several values one for each; `name=` removes the value.
    ///   - intent: types of the parameters. Without one, text that is valid JSON is read as JSON.
    func assigning(
        _ assignments: [String], of intent: IntentDefinition?
    ) throws(ModelError) -> WidgetConfiguration {
        var values = value.objectValue ?? JSONObject()
        var assigned: Set<String> = []
        for assignment in assignments {
            guard let separator = assignment.firstIndex(of: "="), separator > assignment.startIndex else {
                throw ModelError(message: "\(Text.quoted(assignment)): expected parameter=value, such as card=acme")
            }
            let name = String(assignment[..<separator])
            let text = String(assignment[assignment.index(after: separator)...])
            let parameter = intent?.parameter(name)
            let value = text.isEmpty ? JSONValue?.none : Self.value(text, of: parameter)
            let isFirst = assigned.insert(name).inserted
            if let parameter, parameter.count != .one, let single = value, single.arrayValue == nil {
                let others = isFirst ? [] : values[name]?.arrayValue ?? []
                values[name] = .array(others + [single])
            } else {
                values[name] = value
            }
        }
        return try WidgetConfiguration(.object(values))
    }

    private static func value(_ text: String, of parameter: IntentParameter?) -> JSONValue {
        let json = try? JSONValue.parse(text)
        switch (parameter?.type, json) {
        // Validation of the configuration reports values that do not fit.
        case (.string?, _), (.date?, _), (.url?, _): return .string(text)
        case (.person?, .object?), (.custom?, .object?), (.enumeration?, .object?): return json ?? .string(text)
        case (.person?, _), (.custom?, _), (.enumeration?, _): return .string(text)
        default: return json ?? .string(text)
        }
    }
}
