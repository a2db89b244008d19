// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import FreshetService
import JSON
import WidgetDelivery
import WidgetModel
import WidgetStore

struct DevicesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "devices",
        abstract: "Shows the devices that are notified of changes, and manages their webhooks.",
        subcommands: [Show.self, Webhooks.self, Resume.self, Replay.self, Keys.self, Reseal.self])

    struct Show: AppCommand {
        static let configuration = CommandConfiguration(
            abstract: "Shows a user's registered devices, when they were notified, and when they fetched.",
            discussion: """
                Tokens are not shown. WAITING is the number of changes that the device has not been notified of yet. ANSWER is \
                the HTTP status of the last attempt, and 0 if the channel was not reached; APNS ID is Apple's id of that push. \
                PUSHES are those that the channel has accepted, FOLLOWED those that a fetch followed before the next push; P50 MS and P99 MS are the times from \
                the last 40 of these to the fetch.

                Example:
                  freshet devices show --app com.example.bank --user u42
                """)

        @Option(help: "The user's id.", transform: OptionText.identifier)
        var user: String

        @OptionGroup var options: AppOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            output.print(
                try await store.query(.listRegistrations(app: app, user: user)).map(\.json),
                columns: [
                    "DEVICE": "device", "CHANNEL": "channel", "TOPIC": "topic", "WAITING": "waiting",
                    "NOTIFIED": "sentAt",
                    "ANSWER": "answer", "REASON": "reason", "APNS ID": "apnsID", "FETCHED": "fetchedAt",
                    "PUSHES": "pushes",
                    "FOLLOWED": "answeredPushes",
                    "P50 MS": "p50Milliseconds", "P99 MS": "p99Milliseconds",
                ])
        }
    }

    struct Webhooks: StoreCommand {
        static let configuration = CommandConfiguration(
            abstract: "Lists failing webhooks, and those that were disabled after failing for too long.",
            discussion: """
                Example:
                  freshet devices webhooks
                """)

        @OptionGroup var output: OutputOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            output.print(
                try await store.query(.failingWebhooks()).map { webhook in
                    [
                        "app": .string(webhook.app), "failingSince": .time(webhook.failingSince),
                        "disabledAt": .time(webhook.disabledAt), "error": .string(webhook.error),
                    ]
                },
                columns: [
                    "APP": "app", "FAILING SINCE": "failingSince", "DISABLED": "disabledAt", "ERROR": "error",
                ])
        }
    }

    struct Resume: AppCommand {
        static let configuration = CommandConfiguration(
            abstract: "Enables an app's webhook again, and notifies its devices of missed changes.",
            discussion: """
                Example:
                  freshet devices resume --app com.example.bank
                """)

        @OptionGroup var options: AppOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            let wasFailing = try await !store.query(.enableWebhook(app: app)).isEmpty
            let devices = try await store.relistDevices(app: app, notifiedSince: nil)
            output.print(
                ["app": .string(app), "devices": .count(devices), "wasFailing": .bool(wasFailing)],
                or: "\(Figure.counted(devices, "device")) will be notified")
        }
    }

    struct Replay: AppCommand {
        static let configuration = CommandConfiguration(
            abstract: "Sends an app's webhook the devices again that it was sent since a time.",
            discussion: """
                For a backend that has lost requests. Names all widgets of these devices. Devices that wait for a notification \
                are left alone, and so are those with an APNs token.

                Example:
                  freshet devices replay --app com.example.bank --since now-1h
                """)

        @Option(help: "Time since which the devices were notified: \(OptionText.timeForm).", transform: OptionText.time)
        var since: Timestamp

        @OptionGroup var options: AppOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            let devices = try await store.relistDevices(app: app, notifiedSince: since)
            output.print(
                ["app": .string(app), "devices": .count(devices)],
                or: "\(Figure.counted(devices, "device")) will be notified again")
        }
    }

    struct Keys: StoreCommand {
        static let configuration = CommandConfiguration(
            abstract: "Counts the stored tokens by the key that they are sealed with.",
            discussion: """
                An unused key can be removed from delivery.tokenKeys. Reads the whole table of devices.

                Example:
                  freshet devices keys
                """)

        @OptionGroup var output: OutputOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            output.print(
                try await store.query(.tokenKeysInUse()).map {
                    ["key": .string($0.key), "devices": .count($0.devices)]
                },
                columns: ["KEY": "key", "DEVICES": "devices"])
        }
    }

    struct Reseal: StoreCommand {
        static let configuration = CommandConfiguration(
            abstract: "Seals the stored tokens with the current key that are sealed with an earlier one.",
            discussion: """
                The last step of a rotation before the earlier key is removed: needs both keys in delivery.tokenKeys. Can be \
                stopped and repeated at any time.

                Example:
                  freshet devices reseal
                """)

        @OptionGroup var output: OutputOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            guard let keys = DeviceTokenKeys(base64: settings.delivery.tokenKeys) else {
                throw CommandFailure(.configuration, "delivery.tokenKeys is not set")
            }
            let result = try await store.resealTokens(with: keys)
            output.print(
                [
                    "key": .string(keys.current), "resealed": .count(result.resealed),
                    "unreadable": .object(
                        JSONObject(
                            result.unreadable.sorted { $0.key < $1.key }.map {
                                (key: $0.key, value: .count($0.value))
                            })),
                ],
                or: "\(Figure.counted(result.resealed, "token")) sealed with key \(Text.quoted(keys.current))")
            guard result.unreadable.isEmpty else {
                let names = result.unreadable.keys.sorted().map { Text.quoted($0) }.joined(separator: ", ")
                throw CommandFailure(.failure, "tokens of other keys cannot be opened: \(names)")
            }
        }
    }
}
