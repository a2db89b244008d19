// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import Hummingbird
import JSON
import NIOCore
import WidgetModel

/// The console: pages for operators of one app, over the API's own functions.
///
/// A page runs operations of ``operations`` as the bearer of the session, so scopes, tenancy, quotas and the audit log
/// are those of the API.
struct Console: Sendable {
    static let base = "/console"
    /// Failed sign-ins of an address at once, and per minute.
    static let signInBurst = 10
    static let signInsPerMinute = 10.0
    /// Largest form, in bytes: a manifest is the largest.
    static let maximumFormBytes = 524_288
    private static let maximumFields = 32

    /// Routes of the API that the script of a configuration's form calls.
    static let routesOfForms: Set = ["getOptions", "configureWidget"]

    let configuration: ConsoleConfiguration
    let routes: Routes
    let check: AccessCheck
    let readiness: Readiness
    /// Operations of the API and of the console, by their ids.
    let operations: [String: Operation]
    let simulations = ConsoleSimulation()
    /// Freshness objective of kinds without one of their own.
    var objective: Duration { routes.resources.objective }
    /// Failed sign-ins by address; those of local sockets count together.
    private let failures = RateLimiter<[UInt8]>(rate: Console.signInsPerMinute / 60, burst: Console.signInBurst)
    private let now: @Sendable () -> Timestamp

    init(
        _ configuration: ConsoleConfiguration, routes: Routes, check: AccessCheck, readiness: Readiness,
        now: @escaping @Sendable () -> Timestamp = Timestamp.now
    ) {
        self.configuration = configuration
        self.routes = routes
        self.check = check
        self.readiness = readiness
        self.now = now
        let all = routes.table.map(\.operation) + Self.operations
        operations = Dictionary(all.map { ($0.id, $0) }) { $1 }
    }

    func add(to router: Router<APIContext>) {
        router.onGet("console/assets/{name}") { request, context in
            guard let asset = ConsolePage.asset(context.parameters.get("name") ?? "", to: request) else {
                throw Problem.noRoute(request.uri.path)
            }
            return asset
        }
        router.onGet("console/sign-in") { request, context in await openSignIn(request, context) }
        router.post("console/sign-in") { request, context in try await signIn(request, context) }
        router.post("console/sign-out") { request, context in
            await form(request, context) { visit in
                visit.audit("consoleSignOut", .seeOther)
                return redirect(to: "\(Self.base)/sign-in", request.headers.settingConsoleCookie(nil))
            }
        }
        for page in Self.pages {
            router.onGet(RouterPath("console" + page.path)) { request, context in
                await visit(request, context) { visit in try await page.render(visit) }
            }
        }
        for action in Self.actions {
            router.post(RouterPath("console" + action.path)) { request, context in
                await form(request, context) { visit in try await action.run(visit) }
            }
        }
    }

    // MARK: Sessions

    /// Answers a request of a signed-in operator; others are sent to the sign-in.
    private func visit(
        _ request: Request, _ context: APIContext, _ body: (ConsoleVisit) async throws -> Response
    ) async -> Response {
        guard let session = session(request.headers.consoleCookie()), let token = session.token,
            let principal = try? await check.verifier.principal(token: Array(token.utf8))
        else {
            let isPage = request.method == .get || request.method == .head
            let next = isPage && request.uri.path != Self.base ? "?next=\(Text.percentEncoded(request.uri.path))" : ""
            return redirect(
                to: "\(Self.base)/sign-in\(next)",
                request.headers.consoleCookie().map { _ in request.headers.settingConsoleCookie(nil) })
        }
        let caller = Caller(principal: principal, token: Array(token.utf8), check: check)
        let call = APICall(request: request, context: context, caller: caller)
        var visit = ConsoleVisit(console: self, session: session, call: call, state: await installation())
        do {
            visit.call.query = try Self.filled(request.uri.query ?? "")
            return try await body(visit)
        } catch {
            let problem = Problem(answering: error, path: request.uri.path, context.logger)
            return visit.page("problem", title: problem.title, ["detail": problem.detail]).response(problem.status)
        }
    }

    /// The page of a problem that kept a request from its page; nil for requests of anything else.
    func page(of problem: Problem, _ request: Request, _ context: APIContext) async -> Response? {
        let path = request.uri.path
        guard request.method == .get || request.method == .head, path.hasPrefix("\(Self.base)/"),
            !path.hasPrefix("\(Self.base)/assets/")
        else { return nil }
        if path.hasSuffix("/"), let page = Self.ownPath(String(path.dropLast())) { return redirect(to: page) }
        let isUnknown = problem.status == .notFound || problem.status == .methodNotAllowed
        return await visit(request, context) { _ in throw isUnknown ? .noPage(path) : problem }
    }

    /// Answers a form with the session's token in it. Its fields take the place of the query.
    private func form(
        _ request: Request, _ context: APIContext, _ body: (ConsoleVisit) async throws -> Response
    ) async -> Response {
        await visit(request, context) { visit in
            var visit = visit
            visit.call.query = try await fields(of: request, context)
            guard configuration.key.isFormToken(visit.call.text("csrf") ?? "", of: visit.session.id) else {
                visit.audit("consoleForm", Problem.staleForm.status)
                throw Problem.staleForm
            }
            return try await body(visit)
        }
    }

    /// The fields of a form, without empty ones.
    private func fields(of request: Request, _ context: APIContext) async throws -> [(name: String, value: String)] {
        let type = request.headers[.contentType]?.prefix { $0 != ";" }.lowercased()
        guard type == "application/x-www-form-urlencoded" else { throw Problem.unsupportedMediaType }
        let bytes = try await APICall.collect(
            request, context, upTo: Self.maximumFormBytes, within: check.receiveTime)
        // Names are compared with each other, so that their number must be small.
        guard bytes.readableBytesView.count(where: { $0 == UInt8(ascii: "&") }) < Self.maximumFields else {
            throw Problem.badRequest("the form has more than \(Self.maximumFields) fields")
        }
        return try Self.filled(String(decoding: bytes.readableBytesView, as: UTF8.self))
    }

    private static func filled(_ query: String) throws(Problem) -> [(name: String, value: String)] {
        try APICall.query(query).filter { !$0.value.isEmpty }
    }

    private func session(_ cookie: String?) -> ConsoleSession? {
        cookie.flatMap { ConsoleSession(cookie: $0, key: configuration.key, now: now()) }
    }

    func redirect(to path: String, _ cookie: String? = nil) -> Response {
        var headers = ConsolePage.securityHeaders
        headers[.location] = path
        headers[.cacheControl] = "no-store"
        headers[.setCookie] = cookie
        return Response(status: .seeOther, headers: headers)
    }

    // MARK: Sign-in

    private func signInPage(
        _ request: Request, refusal: String? = nil, _ status: HTTPResponse.Status = .ok
    ) -> Response {
        // A session of the form only.
        let session = ConsoleSession(expiresAt: now() + ConsoleSession.signInTime)
        let next = (try? APICall.query(request.uri.query ?? ""))?.first { $0.name == "next" }?.value
        var view: [String: Any] = ["csrf": configuration.key.formToken(of: session.id)]
        view["refusal"] = refusal
        view["next"] = next.flatMap(Self.ownPath)
        // The browser may have a session whose cookie it does not send when another site leads here.
        view["isFromOtherSite"] = request.headers[.init("Sec-Fetch-Site")!] == "cross-site"
        view["target"] = next.flatMap(Self.ownPath) ?? Self.base
        var response = ConsolePage(
            title: "Sign in", base: Self.base, body: ConsolePage.render("sign-in", view)
        ).response(status)
        response.headers[.setCookie] = session.sealed(configuration.key).map {
            request.headers.settingConsoleCookie($0, ofSignIn: true, for: ConsoleSession.signInTime)
        }
        return response
    }

    /// A path of the console; nil for any other place, to which a link could lead after the sign-in.
    private static func ownPath(_ path: String) -> String? {
        let isOwn = path == base || path.hasPrefix(base + "/")
        return isOwn && !path.contains("//") && !path.contains("\\") && !Text.containsControlCharacter(path)
            ? path : nil
    }

    /// Answers with the form, or signs in with the code of a link.
    private func openSignIn(_ request: Request, _ context: APIContext) async -> Response {
        // A preview of the link must not use it up.
        guard request.method == .get, let links = configuration.links,
            let code = (try? APICall.query(request.uri.query ?? ""))?.first(where: { $0.name == "code" })?.value
        else { return signInPage(request) }
        if let response = refuseTooMany(request, context) { return response }
        guard let token = links.take(code: code) else {
            return fail("The link was used already, or is of another run. Sign in with a token.", request, context)
        }
        return await signIn(token: token, next: nil, request, context)
    }

    private func refuse(
        _ reason: String, _ request: Request, _ context: APIContext, status: HTTPResponse.Status = .forbidden
    ) -> Response {
        check.audit(nil, "consoleSignIn", path: request.uri.path, status, context)
        return signInPage(request, refusal: reason, status)
    }

    /// Refuses, and counts a failure of the address.
    private func fail(_ reason: String, _ request: Request, _ context: APIContext) -> Response {
        _ = failures.take(context.peer ?? [])
        return refuse(reason, request, context)
    }

    /// The answer to an address with too many failures; nil for others.
    private func refuseTooMany(_ request: Request, _ context: APIContext) -> Response? {
        guard let wait = failures.state(context.peer ?? []).wait else { return nil }
        var response = refuse(
            "Too many failed sign-ins. Try again later.", request, context, status: .tooManyRequests)
        response.headers[.retryAfter] = "\(wait.seconds(roundedUp: 1))"
        return response
    }

    private func signIn(_ request: Request, _ context: APIContext) async throws -> Response {
        if let response = refuseTooMany(request, context) { return response }
        let fields = try await fields(of: request, context)
        func field(_ name: String) -> String? { fields.first { $0.name == name }?.value }
        guard let form = session(request.headers.consoleCookie(ofSignIn: true)), form.token == nil,
            configuration.key.isFormToken(field("csrf") ?? "", of: form.id)
        else { return refuse(Problem.staleForm.detail, request, context) }
        let token = (field("token") ?? "").filter { !$0.isWhitespace }
        return await signIn(token: token, next: field("next"), request, context)
    }

    /// Begins a session of an operator's token.
    private func signIn(
        token: String, next: String?, _ request: Request, _ context: APIContext
    ) async -> Response {
        guard token.utf8.count <= ConsoleSession.maximumTokenBytes else {
            return fail(
                "The token is longer than \(ConsoleSession.maximumTokenBytes) bytes, which a cookie cannot hold.",
                request, context)
        }
        let principal: Principal
        do throws(TokenRefusal) {
            principal = try await check.verifier.principal(token: Array(token.utf8))
        } catch {
            return fail("Refused: \(error.rawValue).", request, context)
        }
        guard principal.user == nil, principal.has(.operateRead), principal.has(.widgetsRead) else {
            return fail(
                "The console needs an operator's token: of no user, with the scopes widgets:read and operate:read or operate.",
                request, context)
        }
        let end = min(now() + configuration.sessionTime, principal.expiresAt)
        let session = ConsoleSession(token: token, expiresAt: end)
        check.audit(principal, "consoleSignIn", path: request.uri.path, .seeOther, context)
        let cookie = session.sealed(configuration.key).map {
            request.headers.settingConsoleCookie($0, for: end - now())
        }
        return redirect(to: next.flatMap(Self.ownPath) ?? Self.base, cookie)
    }
}

extension Problem {
    static func noPage(_ path: String) -> Problem {
        Problem(.notFound, "The console has no page at \(Text.printable(path, maximum: 256)).")
    }

    static let staleForm = Problem(
        .forbidden, "The form is out of date, or was not sent from this console. Load the page again.",
        title: "Not accepted")
}
