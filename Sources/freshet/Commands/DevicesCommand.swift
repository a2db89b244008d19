import ArgumentParser
import FreshetService
import WidgetModel
import WidgetStore

struct DevicesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "devices",
        abstract: "Shows the devices that are told of changes, and manages their webhooks.",
        subcommands: [Show.self, Webhooks.self, Resume.self, Replay.self, Keys.self])

    struct Show: StoreCommand {
        static let configuration = CommandConfiguration(
            abstract: "Shows a user's registered devices, when they were told, and when they fetched.",
            discussion: """
                Tokens are not shown. WAITING are changes that the device is still to be told of. ANSWER is the HTTP status of the \
                last attempt, with the channel's reason.

                Example:
                  freshet devices show --app com.example.bank --user u42
                """)

        @Option(help: "The app's bundle identifier.")
        var app: String

        @Option(help: "The user's id.", transform: OptionText.identifier)
        var user: String

        @OptionGroup var output: OutputOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            let devices = try await store.query(.listRegistrations(app: app, user: user))
            output.print(
                devices, \.json, columns: "DEVICE", "CHANNEL", "WAITING", "TOLD", "ANSWER", "FETCHED"
            ) { device in
                let answer = device.answer.map { "\($0)\(device.reason.map { " \($0)" } ?? "")" }
                return [
                    device.device, device.topic.map { "\(device.channel) \($0)" } ?? device.channel,
                    "\(device.waiting)",
                    device.sentAt?.rfc3339 ?? "-", answer ?? "-", device.fetchedAt?.rfc3339 ?? "-",
                ]
            }
        }
    }

    struct Webhooks: StoreCommand {
        static let configuration = CommandConfiguration(
            abstract: "Lists the webhooks that fail, and those that were disabled for it.",
            discussion: """
                Example:
                  freshet devices webhooks
                """)

        @OptionGroup var output: OutputOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            output.print(
                try await store.query(.failingWebhooks()), \.json, columns: "APP", "FAILING SINCE", "DISABLED", "ERROR"
            ) { [$0.app, $0.failingSince.rfc3339, $0.disabledAt?.rfc3339 ?? "-", $0.error] }
        }
    }

    struct Resume: StoreCommand {
        static let configuration = CommandConfiguration(
            abstract: "Enables an app's webhook again, and tells its devices what they have missed.",
            discussion: """
                Example:
                  freshet devices resume --app com.example.bank
                """)

        @Option(help: "The app's bundle identifier.")
        var app: String

        @OptionGroup var output: OutputOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            let wasFailing = try await !store.query(.enableWebhook(app: app)).isEmpty
            let devices = try await store.relistDevices(app: app, toldSince: nil)
            output.print(
                ["app": .string(app), "devices": .count(devices), "wasFailing": .bool(wasFailing)],
                or: "\(NumberText.counted(devices, "device")) will be told")
        }
    }

    struct Replay: StoreCommand {
        static let configuration = CommandConfiguration(
            abstract: "Tells devices again that were told since a time.",
            discussion: """
                For a backend that has lost what its webhook was given. Devices that wait anyway are left alone.

                Example:
                  freshet devices replay --app com.example.bank --since 2026-06-22T10:00:00Z
                """)

        @Option(help: "The app's bundle identifier.")
        var app: String

        @Option(help: "RFC 3339 time since which the devices were told.")
        var since: String

        @OptionGroup var output: OutputOptions

        func validate() throws {
            guard Timestamp(rfc3339: since) != nil else {
                throw ValidationError("--since: expected an RFC 3339 time such as 2026-06-22T10:00:00Z")
            }
        }

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            let devices = try await store.relistDevices(app: app, toldSince: Timestamp(rfc3339: since))
            output.print(
                ["app": .string(app), "devices": .count(devices)],
                or: "\(NumberText.counted(devices, "device")) will be told again")
        }
    }

    struct Keys: StoreCommand {
        static let configuration = CommandConfiguration(
            abstract: "Counts the stored tokens by the key that they are sealed with.",
            discussion: """
                A key that none uses can be taken out of delivery.tokenKeys. Reads the whole table of devices.

                Example:
                  freshet devices keys
                """)

        @OptionGroup var output: OutputOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            output.print(
                try await store.query(.tokenKeysInUse()), \.json, columns: "KEY", "DEVICES"
            ) { [$0.key, "\($0.devices)"] }
        }
    }
}

extension FailingWebhook {
    fileprivate var json: JSONValue {
        [
            "app": .string(app), "failingSince": .time(failingSince),
            "disabledAt": disabledAt.map(JSONValue.time) ?? .null, "error": .string(error),
        ]
    }
}

extension TokenKeyUse {
    fileprivate var json: JSONValue { ["key": .string(key), "devices": .count(devices)] }
}
