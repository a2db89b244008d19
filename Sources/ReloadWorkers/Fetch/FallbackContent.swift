import Logging
import WidgetModel
import WidgetStore

extension WorkerContext {
    /// Requests fallback content from a provider. A failure counts for the endpoint, and for the provider if it
    /// concerns all of it.
    ///
    /// - Parameter absence: pause for a provider without the endpoint.
    /// - Throws: ``ProviderFailure``, `CancellationError`; errors of `read`.
    func askFallback<Value>(
        _ call: ProviderCall, of provider: ProviderKey, app: RegisteredApp, absence: Duration,
        read: ([UInt8]) throws -> Value
    ) async throws -> Value {
        let began = clock.elapsed
        do {
            let value = try read(try await fetcher.fetch(call))
            restingEndpoints.succeeded(call.endpoint, of: provider)
            return value
        } catch let failure as ProviderFailure {
            try Task.checkCancellation()
            restingEndpoints.failed(failure, call.endpoint, of: provider, at: clock.elapsed, absence: absence)
            protection.fallbackFailed(failure, of: provider, app: app.name, startedAt: began, at: clock.elapsed)
            throw failure
        }
    }
}
