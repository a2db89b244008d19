import ArgumentParser
import FreshetService
import WidgetEvents
import WidgetModel
import WidgetStore

extension WidgetsCommand {
    struct Configure: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Gives a widget other values of its parameters (freshet.widget.configured.v1).",
            discussion: """
                Parameters that are not named keep their values. A parameter with several values is named several times; \
                without a value it is taken away. Values that the kind's intent does not allow are refused.

                Examples:
                  freshet widgets configure --app com.example.bank w1 card=acme category=groceries
                  freshet widgets configure --app com.example.bank w1 category=
                """)

        @Argument(help: "The widget's id.", transform: OptionText.identifier)
        var widget: String

        @Argument(
            help: ArgumentHelp("Values of parameters.", valueName: "parameter=value"),
            completion: .custom { arguments, _, _ in await Configure.parameters(arguments) })
        var values: [String]

        @OptionGroup var event: PublishCommand.EventOptions

        func run() async throws {
            let (widget, kind) = try await event.settings.withStore { store, _ in
                let widget = try await WidgetLookup.widget(self.widget, of: event.app, in: store)
                return (widget, try await KindLookup.kind(widget.kind, of: event.app, in: store).definition)
            }
            let stored = widget.configuration.map { WidgetConfiguration(storedCanonical: $0) } ?? .empty
            let configuration: WidgetConfiguration
            do throws(ModelError) {
                configuration = try ParameterValues.assign(values, to: stored, of: kind.intent)
            } catch {
                throw ValidationError(error.message)
            }
            let problems = kind.intent?.resolve(configuration, family: widget.family).problems ?? []
            guard problems.isEmpty else {
                throw CommandFailure(
                    .failure, problems.map { "\($0.pointer.dropFirst()): \($0.message)" }.joined(separator: "\n"))
            }
            try await event.publish(
                .configured(app: event.app, widget: widget.id, configuration: configuration), key: widget.user)
        }

        /// Names of the widget's parameters, each with "=". None when the widget is not known, or there is no database.
        private static func parameters(_ arguments: [String]) async -> [String] {
            guard
                let command = try? Configure.parse(
                    Array(arguments.drop { $0 != "configure" }.dropFirst().filter { $0 != "--" && !$0.isEmpty })
                        + ["completed=1"])
            else { return [] }
            let kind = try? await command.event.settings.withStore { store, _ in
                let widget = try await WidgetLookup.widget(command.widget, of: command.event.app, in: store)
                return try await KindLookup.kind(widget.kind, of: command.event.app, in: store)
            }
            return kind?.definition.intent?.parameters.map { "\($0.name)=" } ?? []
        }
    }
}

/// Values of parameters as a command line has them.
enum ParameterValues {
    /// The configuration with the assigned values.
    ///
    /// - Parameters:
    ///   - assignments: `name=value`; of a parameter with several values one for each; `name=` takes the value away.
    ///   - intent: decides what a text stands for. Without one, text that is JSON is that, and other text itself.
    static func assign(
        _ assignments: [String], to configuration: WidgetConfiguration, of intent: IntentDefinition?
    ) throws(ModelError) -> WidgetConfiguration {
        var values = configuration.value.objectValue ?? JSONObject()
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
        // The check of the configuration tells that other values do not fit.
        case (.string?, _), (.date?, _), (.url?, _): return .string(text)
        case (.person?, .object?), (.custom?, .object?), (.enumeration?, .object?): return json ?? .string(text)
        case (.person?, _), (.custom?, _), (.enumeration?, _): return .string(text)
        default: return json ?? .string(text)
        }
    }
}
