import ArgumentParser
import WidgetEvents
import WidgetModel

struct ReloadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reload",
        abstract: "Reloads timelines on an operator's behalf (freshet.reload.requested.v1).",
        discussion: """
            Nothing holds such a reload back: neither budget nor spacing. It goes by Kafka like every other request, \
            so returning means that the brokers have it, and printing its id and place means that explain can name it.

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
