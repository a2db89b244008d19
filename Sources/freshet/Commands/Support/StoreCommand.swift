import ArgumentParser
import FreshetService
import WidgetStore

/// A command on the store of the configured database.
protocol StoreCommand: AsyncParsableCommand {
    var output: OutputOptions { get }

    func run(_ store: WidgetStore, _ settings: Settings) async throws
}

extension StoreCommand {
    func run() async throws {
        try await output.settings.withStore { store, settings in try await run(store, settings) }
    }
}
