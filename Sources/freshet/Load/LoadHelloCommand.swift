import ArgumentParser
import Hummingbird
import Logging
import WidgetModel

/// What the HTTP server does without Freshet, for comparison: `Benchmarks/api` sets the API beside it.
struct LoadHelloCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "hello",
        abstract: "Serves Hummingbird's bare hello-world, which the HTTP API is measured beside.",
        discussion: """
            Prints one line of JSON with its port, and ends by a signal. Benchmarks/api runs it.

            Example:
              freshet load hello
            """)

    @Option(help: "Its port; 0 lets the system choose.")
    var port = 0

    func run() async throws {
        let router = Router()
        router.get("hello") { _, _ in "Hello, world" }
        var logger = Logger(label: "freshet")
        logger.logLevel = .error
        let application = Application(
            router: router, configuration: ApplicationConfiguration(address: .hostname("127.0.0.1", port: port)),
            onServerRunning: { channel in
                Terminal.printLine(["port": .number(JSONNumber(channel.localAddress?.port ?? 0))])
            },
            logger: logger)
        try await application.runService()
    }
}
