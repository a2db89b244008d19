import Hummingbird
import JSON
import WidgetModel
import WidgetStore

/// Routes of the secret that signs requests to the app's providers, and of test requests to them.
extension Routes {
    /// Longest time for which a replaced secret stays valid, in seconds.
    private static let longestOverlap = 366 * 86_400

    var providerRoutes: [APIRoute] {
        [
            APIRoute("getSigningSecret", .get, "signing-secret", .app(.kindsWrite)) { call in
                Response(try await secrets(for: call.caller).json)
            },
            APIRoute(
                "rotateSigningSecret", .post, "signing-secret/rotation", .app(.kindsWrite), query: ["keepOld"]
            ) { call in
                let seconds = try call.integer(
                    "keepOld", in: 0...Self.longestOverlap, default: Int(WidgetStore.secretOverlap.components.seconds))
                let secret = SigningSecret.random()
                let rotation = try await rotate(to: secret, keepingOld: .seconds(seconds), for: call.caller)
                return Response(rotation.json(telling: secret))
            },
            APIRoute("endSecretRotation", .delete, "signing-secret/rotation", .app(.kindsWrite)) { call in
                _ = try await secrets(for: call.caller)
                let isEnded = try await store.endSecretRotation(app: call.app)
                return Response(["app": .string(call.app), "ended": .bool(isEnded)])
            },
            APIRoute("testProvider", .post, "kinds/{kind}/provider-test", .app(.kindsWrite)) { call in
                Response(try await testProvider(of: try call.path("kind"), for: call.caller).json)
            },
        ]
    }

    private func secrets(for caller: Caller) async throws -> AppSecrets {
        guard let secrets = try await store.query(.readSecrets(app: caller.app)).first else { throw Problem.notFound }
        return secrets
    }

    private func rotate(
        to secret: SigningSecret, keepingOld overlap: Duration, for caller: Caller
    ) async throws -> WidgetStore.SecretRotation {
        let rotation = try await store.rotateSecret(
            app: caller.app, to: secret.bytes, keepingOld: overlap, unlessRotating: true)
        guard let rotation else { throw Problem.notFound }
        guard rotation.isChanged else {
            throw Problem.conflict(
                "a rotation is under way, and the provider may use the previous secret: end it first (DELETE)")
        }
        return rotation
    }

    /// Sends a signed request for no timelines to a kind's provider.
    func testProvider(of name: String, for caller: Caller) async throws -> ProviderTrial {
        let directory = try await directory.refresh()
        guard let app = directory.apps[caller.app], let kind = EventRules.find(name, caller.app, directory) else {
            throw Problem.notFound
        }
        let url = kind.definition.providerURL
        let began = ContinuousClock.now
        let failure = await resources.askProvider(url, app.signingSecrets)
        return ProviderTrial(url: url, time: began.duration(to: .now), failure: failure)
    }
}

/// Result of a test request to a provider.
struct ProviderTrial: Sendable {
    let url: String
    let time: Duration
    /// Nil if the provider accepts requests.
    let failure: TrialFailure?

    var json: JSONValue {
        [
            "url": .string(url), "accepted": .bool(failure == nil), "milliseconds": .count(time.wholeMilliseconds),
            "reason": .text(failure?.reason), "message": .text(failure?.message), "status": .count(failure?.status),
        ]
    }
}
