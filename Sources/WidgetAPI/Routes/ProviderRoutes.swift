import Hummingbird
import JSON
import WidgetModel
import WidgetRepresentation
import WidgetStore

/// Routes of the secret that signs requests to the app's providers, and of test requests to them.
extension RouteDependencies {
    /// Longest time for which a replaced secret stays valid, in seconds.
    private static let longestOverlap = 366 * 86_400

    var providerRoutes: [APIRoute] {
        [
            APIRoute("getSigningSecret", .get, "signing-secret", .app(.kindsWrite), handle: get),
            APIRoute(
                "rotateSigningSecret", .post, "signing-secret/rotation", .app(.kindsWrite), query: ["keepOld"],
                handle: rotate),
            APIRoute("endSecretRotation", .delete, "signing-secret/rotation", .app(.kindsWrite), handle: end),
            APIRoute("testProvider", .post, "kinds/{kind}/provider-test", .app(.kindsWrite), handle: test),
        ]
    }

    private func secrets(_ call: APICall) async throws -> AppSecrets {
        guard let secrets = try await store.query(.readSecrets(app: call.app)).first else {
            throw Problem.notFound
        }
        return secrets
    }

    private func get(_ call: APICall) async throws -> Response {
        return Response(try await secrets(call).json)
    }

    private func rotate(_ call: APICall) async throws -> Response {
        let seconds = try call.integer(
            "keepOld", in: 0...Self.longestOverlap, default: Int(WidgetStore.secretOverlap.components.seconds))
        let secret = SigningSecret.random()
        let rotation = try await store.rotateSecret(
            app: call.app, to: secret.bytes, keepingOld: .seconds(seconds), unlessRotating: true)
        guard let rotation else { throw Problem.notFound }
        guard rotation.isChanged else {
            throw Problem.conflict(
                "a rotation is under way, and the provider may use the previous secret: end it first (DELETE)")
        }
        return Response(rotation.json(telling: secret))
    }

    private func end(_ call: APICall) async throws -> Response {
        _ = try await secrets(call)
        let isEnded = try await store.endSecretRotation(app: call.app)
        return Response(["app": .string(call.app), "ended": .bool(isEnded)])
    }

    /// Sends a signed request for no timelines to the kind's provider.
    private func test(_ call: APICall) async throws -> Response {
        let name = try call.path("kind")
        let directory = try await directory.refresh()
        guard let app = directory.apps[call.app], let kind = EventRules.find(name, call.app, directory) else {
            throw Problem.notFound
        }
        let url = kind.definition.providerURL
        let began = ContinuousClock.now
        let failure = await resources.askProvider(url, app.signingSecrets)
        let milliseconds = Int((ContinuousClock.now - began) / .milliseconds(1))
        return Response([
            "url": .string(url), "accepted": .bool(failure == nil),
            "milliseconds": .count(milliseconds), "reason": .text(failure?.reason),
            "message": .text(failure?.message), "status": .count(failure?.status),
        ])
    }
}
