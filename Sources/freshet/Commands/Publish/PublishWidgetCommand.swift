import ArgumentParser
import WidgetEvents
import WidgetModel

struct PublishWidgetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "widget",
        abstract: "A widget was placed, configured, removed or viewed, or its device's environment changed.",
        subcommands: [Placed.self, Configured.self, Removed.self, Viewed.self, EnvironmentChanged.self])

    /// Properties of the device that providers need.
    struct DeviceEnvironment: ParsableArguments {
        @Option(help: "The device's language, BCP 47.")
        var locale = "en-US"

        @Option(help: "The device's time zone, IANA.")
        var timeZone = "Etc/UTC"

        func validate() throws {
            _ = try model()
        }

        func model() throws -> WidgetEnvironment {
            do throws(ModelError) {
                return try WidgetEnvironment(locale: locale, timeZone: timeZone)
            } catch {
                throw ValidationError(
                    error.pointer == "/locale" ? "--locale: \(error.message)" : "--time-zone: \(error.message)")
            }
        }
    }

    struct Target: ParsableArguments {
        @Argument(help: "The widget's id.", transform: OptionText.identifier)
        var widget: String

        @Option(
            help: "The widget's user, whose id is the partition key that keeps events in order.",
            transform: OptionText.identifier)
        var user: String
    }

    struct Placed: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "A widget was placed on a device (freshet.widget.placed.v1).",
            discussion: """
                Example:
                  freshet publish widget placed --app com.example.bank --user u42 --device d1 \
                --kind RecentPurchases --configuration '{"card":"acme","category":"all"}' w1
                """)

        @OptionGroup var target: Target

        @Option(help: "The widget's device.", transform: OptionText.identifier)
        var device: String

        @Option(help: "The widget's kind.", transform: OptionText.identifier)
        var kind: String

        @Option(help: "The widget's family, such as systemSmall.")
        var family = "systemSmall"

        @Option(help: ArgumentHelp("The configured values.", valueName: "json"))
        var configuration = "{}"

        @OptionGroup var environment: DeviceEnvironment
        @OptionGroup var event: PublishCommand.EventOptions

        func validate() throws {
            guard WidgetFamily(name: family) != nil else {
                let names = WidgetFamily.allCases.map(\.name).joined(separator: ", ")
                throw ValidationError("--family \(family): expected one of \(names)")
            }
            _ = try Check.configuration(configuration, "--configuration")
        }

        func run() async throws {
            try await event.publish(
                .placed(
                    WidgetPlacement(
                        app: event.app, widget: target.widget, user: target.user, device: device, kind: kind,
                        family: WidgetFamily(name: family) ?? .systemSmall,
                        configuration: try Check.configuration(configuration, "--configuration"),
                        environment: try environment.model())))
        }
    }

    struct Configured: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "A widget was configured (freshet.widget.configured.v1).",
            discussion: """
                Example:
                  freshet publish widget configured --app com.example.bank --user u42 \
                --configuration '{"card":"soup"}' w1
                """)

        @Option(help: ArgumentHelp("All values, not only those that changed.", valueName: "json"))
        var configuration: String

        @OptionGroup var target: Target
        @OptionGroup var event: PublishCommand.EventOptions

        func validate() throws {
            _ = try Check.configuration(configuration, "--configuration")
        }

        func run() async throws {
            let configuration = try Check.configuration(configuration, "--configuration")
            try await event.publish(
                .configured(app: event.app, widget: target.widget, configuration: configuration), key: target.user)
        }
    }

    struct Removed: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "A widget was removed (freshet.widget.removed.v1).",
            discussion: """
                Example:
                  freshet publish widget removed --app com.example.bank --user u42 w1
                """)

        @OptionGroup var target: Target
        @OptionGroup var event: PublishCommand.EventOptions

        func run() async throws {
            try await event.publish(.removed(app: event.app, widget: target.widget), key: target.user)
        }
    }

    struct Viewed: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "A widget was viewed (freshet.widget.viewed.v1).",
            discussion: """
                Example:
                  freshet publish widget viewed --app com.example.bank --user u42 w1
                """)

        @OptionGroup var target: Target
        @OptionGroup var event: PublishCommand.EventOptions

        func run() async throws {
            try await event.publish(.viewed(app: event.app, widget: target.widget), key: target.user)
        }
    }

    struct EnvironmentChanged: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "environment",
            abstract: "A device's language or time zone changed (freshet.device.environment-changed.v1).",
            discussion: """
                Example:
                  freshet publish widget environment --app com.example.bank --user u42 --locale de-DE \
                --time-zone Europe/Berlin d1
                """)

        @Argument(help: "The device's id.", transform: OptionText.identifier)
        var device: String

        @Option(
            help: "The device's user, whose id is the partition key that keeps events in order.",
            transform: OptionText.identifier)
        var user: String

        @Flag(help: "Midnight passed, or the clock or time zone was set: also reload the device's widgets.")
        var significantTimeChange = false

        @OptionGroup var environment: DeviceEnvironment
        @OptionGroup var event: PublishCommand.EventOptions

        func run() async throws {
            try await event.publish(
                .environmentChanged(
                    app: event.app, device: device, environment: try environment.model(),
                    significantTimeChange: significantTimeChange),
                key: user)
        }
    }
}
