// SPDX-License-Identifier: Apache-2.0

package import AsyncHTTPClient
import NIOCore
package import ReloadWorkers
package import WidgetModel
import WidgetStore

/// Accounts of apps at Apple's push service: a provider token and connections for each key.
///
/// Apple refuses pushes for several teams on one connection, and a connection whose provider token changes too often.
/// Apps that share a key share its connections.
package struct APNsAccounts: Sendable {
    /// Provider token and HTTP client of a key.
    package typealias Account = (token: ProviderToken, http: HTTPClient)

    private let accounts: [APNsKey: Account]
    private let keys: [String: APNsKey]

    /// Creates an HTTP client for each key. The owner calls ``shutdown()`` at the end.
    ///
    /// - Parameter keys: keys by app.
    package init(
        keys: [String: APNsKey], configuration: HTTPClient.Configuration,
        now: @escaping @Sendable () -> Timestamp = Timestamp.now
    ) {
        self.keys = keys
        accounts = Dictionary(
            uniqueKeysWithValues: Set(keys.values).map { key in
                let http = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
                return (key, (ProviderToken(key, now: now), http))
            })
    }

    /// The account of an app; nil: the app has no key.
    package subscript(app: String) -> Account? { keys[app].flatMap { accounts[$0] } }

    /// Passes accounts to the closure, and closes their connections after it.
    package static func with<Return>(
        keys: [String: APNsKey], configuration: HTTPClient.Configuration,
        isolation: isolated (any Actor)? = #isolation, _ body: (APNsAccounts) async throws -> Return
    ) async throws -> Return {
        let accounts = APNsAccounts(keys: keys, configuration: configuration)
        do {
            let result = try await body(accounts)
            await accounts.shutdown()
            return result
        } catch {
            await accounts.shutdown()
            throw error
        }
    }

    /// Closes the connections.
    package func shutdown() async {
        // `shutdown()` fails only for a client that is shut down already.
        for account in accounts.values { try? await account.http.shutdown() }
    }
}

extension APNsAccounts {
    /// The Linux socket option `TCP_USER_TIMEOUT`.
    static let tcpUserTimeout = NIOBSDSocket.Option(rawValue: 18)

    /// Configuration of the HTTP clients.
    package static func configuration(trusting limits: ConnectionLimits) -> HTTPClient.Configuration {
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
        configuration.timeout.connect = TimeAmount(limits.connectTimeout)
        configuration.timeout.read = TimeAmount(limits.readTimeout)
        configuration.tlsConfiguration = limits.tls
        configuration.httpVersion = .automatic
        configuration.connectionPool.retryConnectionEstablishment = false
        let timeout = Int(limits.readTimeout.wholeMilliseconds)
        configuration.http2ConnectionDebugInitializer = { channel in
            ConnectionLimits.prepareHTTP2(channel).flatMap {
                #if os(Linux)
                // Without this option Linux keeps a connection whose other end is gone for about 15 minutes, while
                // pushes are written.
                channel.setOption(.tcpOption(tcpUserTimeout), value: timeout)
                #else
                channel.eventLoop.makeSucceededVoidFuture()
                #endif
            }
        }
        return configuration
    }
}
