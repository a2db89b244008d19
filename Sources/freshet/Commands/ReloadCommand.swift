import ArgumentParser
import WidgetEvents
import WidgetModel

struct ReloadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reload",
        abstract: "Reloads timelines on an operator's behalf (freshet.reload.requested.v1).",
        discussion: """
            Such a reload needs neither budget nor spacing. It is published to Kafka like every other request; explain \
            shows the printed id and position. Where postgres.url is set, an app or a kind that is not registered is \
            refused, unless --no-check is given.

            Examples:
              freshet reload --app com.example.bank --user u42
              freshet reload --app com.example.bank --everyone --kind RecentPurchases --matching '{"card":"acme"}'
            """)

    @OptionGroup var scope: PublishCommand.ScopeOptions
    @OptionGroup var event: PublishCommand.EventOptions

    func run() async throws {
        try await event.publish(.operatorReload(try scope.request(app: event.app, reason: .operator)))
    }
}
