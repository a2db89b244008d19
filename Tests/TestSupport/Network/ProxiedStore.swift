package import Logging
package import PostgresClient

extension TestStore {
    /// The same database through a proxy, with a pool of its own: what is done through `store` meets the proxy's faults.
    package struct Proxied: Sendable {
        package let proxy: TestProxy
        package let store: TestStore
        package var pool: PostgresPool { store.pool }
    }

    /// Lends the database through a proxy that passes everything on until it is told otherwise. Reconnecting takes no
    /// time worth mentioning.
    package func throughProxy<Result: Sendable>(
        logger: Logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
        configure: (inout PostgresConfiguration) -> Void = { _ in },
        _ body: (Proxied) async throws -> Result
    ) async throws -> Result {
        let proxy = try TestProxy(to: pool.configuration)
        try proxy.start()
        var configuration = pool.configuration
        configuration.connectionString = proxy.connectionString
        configuration.backoff = PostgresBackoff(initial: .milliseconds(1), maximum: .milliseconds(50))
        configure(&configuration)
        let proxied = PostgresPool(configuration: configuration, logger: logger)
        let store = TestStore(pool: proxied, connectionString: proxy.connectionString)
        do {
            let result = try await body(Proxied(proxy: proxy, store: store))
            await proxied.shutdown()
            proxy.stop()
            return result
        } catch {
            proxy.stop()
            await proxied.shutdown()
            throw error
        }
    }
}
