// SPDX-License-Identifier: Apache-2.0

package import Logging
package import PostgresClient

extension TestStore {
    /// A store with its own pool that reaches the database through a proxy, and so meets the proxy's faults.
    package struct Proxied: Sendable {
        package let proxy: TestProxy
        package let store: TestStore
        package var pool: PostgresPool { store.pool }
    }

    /// Passes a store behind a proxy to the closure. The proxy forwards everything until a fault is set; the pool
    /// reconnects with almost no delay.
    package func throughProxy<Result: Sendable>(
        logger: Logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
        configure: (inout PostgresConfiguration) -> Void = { _ in },
        _ body: (Proxied) async throws -> Result
    ) async throws -> Result {
        let proxy = try TestProxy(to: pool.configuration)
        try proxy.start()
        var configuration = pool.configuration
        configuration.connectionString = proxy.connectionString
        configuration.maximumBackoff = .milliseconds(50)
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
