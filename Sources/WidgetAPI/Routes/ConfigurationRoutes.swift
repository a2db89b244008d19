import HTTPTypes
import Hummingbird
import JSON
import WidgetEvents
import WidgetModel
import WidgetStore

/// Routes of widgets' configurations: definitions, options, forms and changes.
extension RouteDependencies {
    /// Longest text of a search for options, in bytes.
    private static let maximumSearchBytes = 256

    var configurationRoutes: [APIRoute] {
        let place = ["family", "locale", "timeZone", "user", "configuration"]
        return [
            APIRoute("getIntent", .get, "kinds/{kind}/intent", .own(.widgetsRead), handle: intent),
            APIRoute(
                "getOptions", .get, "kinds/{kind}/parameters/{parameter}/options", .own(.widgetsRead),
                query: place + ["search"], handle: options),
            APIRoute(
                "getKindForm", .get, "kinds/{kind}/configuration/form", .own(.widgetsRead), query: place,
                handle: kindForm),
            APIRoute(
                "getWidgetForm", .get, "widgets/{widget}/configuration/form", .own(.widgetsRead), query: ["locale"],
                handle: widgetForm),
            .change("configureWidget", .put, "widgets/{widget}/configuration", handle: configure),
        ]
    }

    // MARK: Definitions

    private func intent(_ call: APICall) async throws -> Response {
        Response(try await kind(call).intent.json())
    }

    /// The kind of the path, which must have an intent.
    private func kind(_ call: APICall) async throws -> (definition: KindDefinition, intent: IntentDefinition) {
        let definition = try await kind(of: call).definition
        guard let intent = definition.intent else { throw Problem.noIntent(definition.name) }
        return (definition, intent)
    }

    // MARK: Options

    private func options(_ call: APICall) async throws -> Response {
        let name = try call.path("parameter")
        let search = call.text("search").flatMap { $0.isEmpty ? nil : $0 }
        if let search, let problem = Text.identifierProblem(search, maximumBytes: Self.maximumSearchBytes) {
            throw Problem.parameter("search", problem)
        }
        let place = try WidgetPlace(call)
        let (definition, intent) = try await kind(call)
        guard let parameter = intent.parameter(name) else { throw Problem.notFound }
        if let listed = parameter.listedOptions(intent.localizations, place.environment.locale) {
            return Response((search.map { listed.filtered(by: $0) } ?? listed).json)
        }
        guard parameter.hasDynamicOptions else {
            throw Problem(.notFound, "the parameter \(Text.quoted(name)) has no options")
        }
        let answersSearch = parameter.searchPrompt != nil
        let question = OptionsQuestion(
            parameter: parameter.name, search: answersSearch ? search : nil,
            context: try place.context())
        guard let provider = resources.configurations else { throw Problem.noConfigurations }
        let options = try await provider.options(question, of: definition, app: call.app)
        // The list is filtered unless the provider searches it.
        return Response(
            json: (answersSearch ? options : search.map { options.filtered(by: $0) } ?? options).encoded)
    }

    // MARK: Forms

    /// The form of a widget that is not placed yet, with dynamic defaults. If the provider fails, those of the
    /// definition stay.
    private func kindForm(_ call: APICall) async throws -> Response {
        var place = try WidgetPlace(call)
        let definition = try await kind(call).definition
        if place.configuration == nil, definition.intent?.parameters.contains(where: \.hasDynamicDefault) == true,
            let context = try? place.context(), let provider = resources.configurations
        {
            place.configuration = try? await provider.defaults(context, of: definition, app: call.app)
        }
        return try form(of: definition, place, call, widget: nil)
    }

    private func widgetForm(_ call: APICall) async throws -> Response {
        let (widget, definition) = try await find(try call.path("widget"), call)
        guard let definition else { throw Problem.notFound }
        guard let family = widget.family else { throw Problem.kindUnreadable }
        let locale = try WidgetEnvironment(call, standard: widget.environment).locale
        let place = WidgetPlace(
            user: widget.user, family: family,
            environment: WidgetEnvironment(storedLocale: locale, timeZone: widget.environment.timeZone),
            configuration: widget.configuration.map { WidgetConfiguration(storedCanonical: $0) })
        return try form(of: definition, place, call, widget: widget.id)
    }

    private func form(
        of definition: KindDefinition, _ place: WidgetPlace, _ call: APICall, widget: String?
    ) throws(Problem) -> Response {
        guard
            let form = definition.form(
                for: place.configuration ?? .empty, family: place.family, locale: place.environment.locale)
        else { throw .noIntent(definition.name) }
        let kindPath = "\(call.base)/kinds/\(Text.percentEncoded(definition.name))"
        let optionsPath: @Sendable (String) -> String = { parameter in
            "\(kindPath)/parameters/\(Text.percentEncoded(parameter))/options?\(place.query)"
        }
        guard call.acceptsHTML else {
            var response = Response(form.json(optionsPath: optionsPath))
            response.headers[.vary] = "Accept"
            return response
        }
        let page = FormPage(
            form: form, optionsPath: optionsPath,
            savePath: widget.map { "\(call.base)/widgets/\(Text.percentEncoded($0))/configuration" },
            token: call.bearerToken)
        return page.response
    }

    // MARK: Changing

    private func configure(_ call: APICall) async throws -> Response {
        let body = try await EventBody(call, path: ["widget"], members: ["configuration"])
        let event = try body.event(of: .widgetConfigured)
        // The placement of an unknown widget may still be in Kafka; ingest checks the event in that case.
        if case .widget(.configured(let id, let configuration)) = event.change,
            let (widget, definition) = try? await find(id, call),
            let intent = definition?.intent, let family = widget.family
        {
            let problems = intent.resolve(configuration, family: family).problems
            guard problems.isEmpty else {
                throw Problem.unprocessable(
                    problems.map { Problem.Item(detail: $0.message, pointer: "/configuration\($0.pointer)") })
            }
        }
        return try await publish(event, for: call)
    }

    /// A widget of the bearer with the definition of its kind; nil for a retired kind.
    private func find(_ id: String, _ call: APICall) async throws -> (WidgetDetail, KindDefinition?) {
        let filter = WidgetFilter(app: call.app, user: call.user, widget: id)
        guard let widget = try await store.query(.listWidgets(filter, limit: 1)).first,
            widget.timelineID != nil
        else { throw Problem.notFound }
        let directory = try await directory.directory(maximumAge: .seconds(5))
        return (widget, EventRules.find(widget.kind, call.app, directory)?.definition)
    }
}

/// Place of a widget that a query describes: owner, family, environment and configuration.
struct WidgetPlace: Sendable {
    var user: String?
    let family: WidgetFamily
    let environment: WidgetEnvironment
    var configuration: WidgetConfiguration?
}

extension WidgetPlace {
    /// Reads the parameters of the query.
    init(_ call: APICall) throws(Problem) {
        let (family, environment) = (try call.family(), try WidgetEnvironment(call))
        self.init(
            user: try call.widgetUser(), family: family, environment: environment,
            configuration: try call.configuration())
    }

    /// The place as a query, without its configuration.
    fileprivate var query: String {
        var items = [
            ("family", family.name), ("locale", environment.locale), ("timeZone", environment.timeZone),
        ]
        if let user { items.append(("user", user)) }
        return items.map { "\($0)=\(Text.percentEncoded($1))" }.joined(separator: "&")
    }

    func context() throws(Problem) -> ConfigurationContext {
        guard let user else { throw .parameter("user", "is missing: the provider answers for one user") }
        return ConfigurationContext(
            user: user, family: family, environment: environment, values: configuration ?? .empty)
    }
}

extension APICall {
    /// The family of the query.
    func family() throws(Problem) -> WidgetFamily {
        guard let name = text("family") else { throw .parameter("family", "is missing") }
        guard let family = WidgetFamily(name: name) else {
            throw .parameter("family", "expected one of \(WidgetFamily.allCases.map(\.name).joined(separator: ", "))")
        }
        return family
    }

    /// The user of the query, else the bearer's own; another user is not found.
    func widgetUser() throws(Problem) -> String? {
        let asked = try identifier("user") ?? user
        if let user, let asked, !Text.equal(user, asked) { throw .notFound }
        return asked
    }

    /// The configuration of the query.
    func configuration() throws(Problem) -> WidgetConfiguration? {
        guard let text = text("configuration") else { return nil }
        do throws(ModelError) {
            return try WidgetConfiguration(json: Array(text.utf8))
        } catch {
            throw .parameter("configuration", "\(error)")
        }
    }

    /// Whether the caller asks for a page.
    fileprivate var acceptsHTML: Bool {
        request.headers[.accept]?.lowercased().contains("text/html") ?? false
    }

    /// The bearer's own token.
    fileprivate var bearerToken: String {
        request.headers[.authorization].map { String($0.drop { $0 != " " }.drop { $0 == " " }) } ?? ""
    }
}

extension WidgetEnvironment {
    /// The environment of a query.
    init(_ call: APICall, standard: WidgetEnvironment? = nil) throws(Problem) {
        do throws(ModelError) {
            self = try WidgetEnvironment(
                locale: call.text("locale") ?? standard?.locale ?? "en",
                timeZone: call.text("timeZone") ?? standard?.timeZone ?? "UTC")
        } catch {
            throw .unprocessable([Problem.Item(detail: error.message, parameter: String(error.pointer.dropFirst()))])
        }
    }
}

extension Problem {
    static let noConfigurations = Problem(
        .serviceUnavailable, "this process does not call providers; try another one", title: "Unavailable",
        headers: [.retryAfter: "5"])

    fileprivate static func noIntent(_ kind: String) -> Problem {
        Problem(.notFound, "the kind \(Text.quoted(kind)) has no intent, so its widgets have no parameters")
    }
}
