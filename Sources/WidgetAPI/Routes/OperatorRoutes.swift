// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import Hummingbird
import JSON
import WidgetModel
import WidgetStore

/// Routes for operators: explanations, forecasts, erasing and pausing.
extension Routes {
    var operatorRoutes: [APIRoute] {
        [
            APIRoute("explainWidget", .get, "widgets/{widget}/explanation", .app(.operateRead)) { call in
                Response(try await explanation(of: try call.path("widget"), for: call.caller).json)
            },
            APIRoute("getForecast", .get, "forecast", .app(.operateRead), query: ["hours"]) { call in
                let hours = try call.integer("hours", in: 1...168, default: 24)
                return Response(try await forecast(hours: hours, for: call.caller).json)
            },
            APIRoute("getDelivery", .get, "delivery", .app(.operateRead), query: ["days"]) { call in
                let days = try call.integer("days", in: 1...DeliveryTotals.keptDays, default: 1)
                let kinds = try await store.query(.listKinds(app: call.app)).readable
                return Response(try await delivery(of: kinds, days: days, for: call.caller).json(app: call.app))
            },
            APIRoute("eraseUser", .delete, "users/{user}", .app(.operate)) { call in
                // A person without data is erased too.
                guard let erasure = try await store.erase(user: try call.path("user"), of: call.app) else {
                    throw Problem.notFound
                }
                return Response(erasure.json)
            },
            pausing("pauseApp", .put, "pause"), pausing("resumeApp", .delete, "pause"),
            pausing("pauseKind", .put, "kinds/{kind}/pause"), pausing("resumeKind", .delete, "kinds/{kind}/pause"),
        ]
    }

    /// Why a widget shows what it shows.
    func explanation(of widget: String, for caller: Caller) async throws -> ExplainedWidget {
        let app = caller.app
        let ignored = try await store.query(.ignoredEvents(app: app, widget: widget))
        guard let explanation = try await store.query(.readExplanation(app: app, widget: widget)).first else {
            var problem = Problem.notFound
            for event in ignored { problem.detail += "; ignored: \(event.sentence())" }
            throw problem
        }
        _ = try await directory.directory(maximumAge: .seconds(60))
        return try await ExplainedWidget(
            explanation, ignored: ignored, lookup: resources.lookup, from: store, isForTenant: isShared)
    }

    /// Providers that get no requests, since they fail.
    func outages(for caller: Caller) async throws -> [ProviderOutage] {
        try await store.query(.listOutages(app: caller.app))
    }

    /// Scheduled reloads of the next hours.
    ///
    /// - Parameter kind: nil: of all kinds.
    func forecast(hours: Int, kind: String? = nil, for caller: Caller) async throws -> Forecast {
        let rows = try await store.query(.forecastDue(app: caller.app, hours: hours))
        return Forecast(rows.filter { row in kind.map { Text.equal(row.kind, $0) } ?? true }, hours: hours)
    }

    func delivery(of kinds: [RegisteredKind], days: Int, for caller: Caller) async throws -> DeliveryReport {
        try await DeliveryReport(
            of: caller.app, kinds: kinds, days: days, objective: resources.objective, from: store)
    }

    // MARK: Pausing

    /// Route that pauses (`PUT`) or resumes (`DELETE`) the app, or the kind of a path with one.
    private func pausing(_ id: String, _ method: HTTPRequest.Method, _ path: String) -> APIRoute {
        APIRoute(id, method, path, .app(.operate), query: ["reason"]) { call in
            let kind = path.contains("{kind}") ? try call.path("kind") : nil
            let outcome = try await set(isPaused: method == .put, kind: kind, try call.operatorNote(), for: call.caller)
            return Response(outcome.json(app: call.app, kind: kind))
        }
    }

    /// Pauses or resumes a kind, or the app if it is nil.
    @discardableResult
    func set(
        isPaused: Bool, kind: String?, _ note: OperatorNote, for caller: Caller
    ) async throws -> PauseOutcome {
        let outcome =
            isPaused
            ? try await store.pause(app: caller.app, kind: kind, note)
            : try await store.resume(app: caller.app, kind: kind, note)
        guard let outcome else { throw Problem.notFound }
        return outcome
    }
}

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
                Response(try await testProvider(of: try call.path("kind"), for: call.caller))
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
            app: caller.app, to: secret.bytes, keepingOld: overlap)
        guard let rotation else { throw Problem.notFound }
        return rotation
    }

    /// Result of a signed request for no timelines to a kind's provider.
    func testProvider(of name: String, for caller: Caller) async throws -> JSONValue {
        let directory = try await directory.refresh()
        guard let app = directory.apps[caller.app], let kind = Self.find(name, of: caller.app, in: directory)
        else {
            throw Problem.notFound
        }
        let url = kind.definition.providerURL
        let began = ContinuousClock.now
        let failure = await resources.askProvider(url, app.signingSecrets)
        return [
            "url": .string(url), "accepted": .bool(failure == nil),
            "milliseconds": .count(began.duration(to: .now).wholeMilliseconds), "reason": .text(failure?.reason),
            "message": .text(failure?.message), "status": .count(failure?.status),
        ]
    }
}
