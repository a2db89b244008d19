// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import Hummingbird
import JSON
import WidgetEvents
import WidgetModel
import WidgetStore

/// Routes of widgets' configurations: definitions, options, forms and changes.
extension Routes {
    /// Longest text of a search for options, in bytes.
    private static let maximumSearchBytes = 256

    var configurationRoutes: [APIRoute] {
        let place = ["family", "locale", "timeZone", "user", "configuration"]
        return [
            APIRoute("getIntent", .get, "kinds/{kind}/intent", .own(.widgetsRead)) { call in
                Response(try await intent(of: try call.path("kind"), for: call.caller).intent.json())
            },
            APIRoute(
                "getOptions", .get, "kinds/{kind}/parameters/{parameter}/options", .own(.widgetsRead),
                query: place + ["search"]
            ) { call in
                let (kind, parameter) = (try call.path("kind"), try call.path("parameter"))
                let search = call.text("search").flatMap { $0.isEmpty ? nil : $0 }
                if let search, let problem = Text.identifierProblem(search, maximumBytes: Self.maximumSearchBytes) {
                    throw Problem.parameter("search", detail: problem)
                }
                let options = try await options(
                    of: parameter, kind: kind, search: search, try WidgetPlace(call), for: call.caller)
                return Response(json: options)
            },
            APIRoute(
                "getKindForm", .get, "kinds/{kind}/configuration/form", .own(.widgetsRead), query: place
            ) { call in
                let place = try WidgetPlace(call)
                return try await form(ofKind: try call.path("kind"), place, for: call.caller).response(to: call.request)
            },
            APIRoute(
                "getWidgetForm", .get, "widgets/{widget}/configuration/form", .own(.widgetsRead), query: ["locale"]
            ) { call in
                let widget = try call.path("widget")
                return try await form(ofWidget: widget, for: call.caller) { standard throws(Problem) in
                    try WidgetEnvironment(call, standard: standard).locale
                }.response(to: call.request)
            },
            change(
                "configureWidget", .put, "widgets/{widget}/configuration", .widgetConfigured,
                members: ["configuration"]),
        ]
    }

    /// A kind that must have an intent.
    func intent(
        of kind: String, for caller: Caller
    ) async throws -> (definition: KindDefinition, intent: IntentDefinition) {
        let definition = try await self.kind(kind, for: caller).definition
        guard let intent = definition.intent else { throw Problem.noIntent(definition.name) }
        return (definition, intent)
    }

    /// JSON of the options of a parameter: those of the definition, or the provider's.
    private func options(
        of name: String, kind: String, search: String?, _ place: WidgetPlace, for caller: Caller
    ) async throws -> [UInt8] {
        let (definition, intent) = try await intent(of: kind, for: caller)
        guard let parameter = intent.parameter(name) else { throw Problem.notFound }
        if let listed = parameter.listedOptions(of: intent, place.environment.locale) {
            return (search.map { listed.filtered(by: $0) } ?? listed).encoded
        }
        guard parameter.hasDynamicOptions else {
            throw Problem(.notFound, "the parameter \(Text.quoted(name)) has no options")
        }
        let answersSearch = parameter.searchPrompt != nil
        let question = OptionsQuestion(
            parameter: parameter.name, search: answersSearch ? search : nil,
            context: try place.context())
        guard let provider = resources.configurations else { throw Problem.noConfigurations }
        let options = try await provider.options(question, of: definition, app: caller.app)
        // The list is filtered unless the provider searches it.
        return (answersSearch ? options : search.map { options.filtered(by: $0) } ?? options).encoded
    }

    // MARK: Forms

    /// The form of a widget that is not placed yet, with dynamic defaults. If the provider fails, those of the
    /// definition stay.
    private func form(ofKind name: String, _ place: WidgetPlace, for caller: Caller) async throws -> FormPage {
        var place = place
        let definition = try await kind(name, for: caller).definition
        if place.configuration == nil, definition.intent?.parameters.contains(where: \.hasDynamicDefault) == true,
            let context = try? place.context(), let provider = resources.configurations
        {
            place.configuration = try? await provider.defaults(context, of: definition, app: caller.app)
        }
        return try form(of: definition, place, widget: nil, for: caller)
    }

    /// The form of a placed widget.
    ///
    /// - Parameter locale: chooses the form's locale, given the widget's environment.
    func form(
        ofWidget id: String, for caller: Caller,
        locale: (WidgetEnvironment) throws(Problem) -> String = \.locale
    ) async throws -> FormPage {
        let (widget, definition) = try await placedWidget(id, for: caller)
        guard let definition else { throw Problem.notFound }
        guard let family = widget.family else { throw Problem.kindUnreadable }
        let place = WidgetPlace(
            user: widget.user, family: family,
            environment: WidgetEnvironment(
                storedLocale: try locale(widget.environment), timeZone: widget.environment.timeZone),
            configuration: widget.configuration.map { WidgetConfiguration(storedCanonical: $0) })
        return try form(of: definition, place, widget: widget.id, for: caller)
    }

    private func form(
        of definition: KindDefinition, _ place: WidgetPlace, widget: String?, for caller: Caller
    ) throws(Problem) -> FormPage {
        guard
            let form = definition.form(
                for: place.configuration ?? .empty, family: place.family, locale: place.environment.locale)
        else { throw .noIntent(definition.name) }
        let base = "/v1/apps/\(Text.percentEncoded(caller.app))"
        let parameters = "\(base)/kinds/\(Text.percentEncoded(definition.name))/parameters"
        return FormPage(
            form: form, optionsPath: { "\(parameters)/\(Text.percentEncoded($0))/options?\(place.query)" },
            savePath: widget.map { "\(base)/widgets/\(Text.percentEncoded($0))/configuration" },
            token: String(decoding: caller.token, as: UTF8.self))
    }

    /// A widget of the caller with the definition of its kind; nil for a retired kind.
    func placedWidget(_ id: String, for caller: Caller) async throws -> (WidgetDetail, KindDefinition?) {
        guard let widget = try await widget(id, for: caller), widget.timelineID != nil else { throw Problem.notFound }
        let directory = try await directory.directory(maximumAge: .seconds(5))
        return (widget, Self.find(widget.kind, of: caller.app, in: directory)?.definition)
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
        guard let user else { throw .parameter("user", detail: "is missing: the provider answers for one user") }
        return ConfigurationContext(
            user: user, family: family, environment: environment, values: configuration ?? .empty)
    }
}

extension APICall {
    /// The family of the query.
    func family() throws(Problem) -> WidgetFamily {
        guard let name = text("family") else { throw .parameter("family", detail: "is missing") }
        guard let family = WidgetFamily(name: name) else {
            throw .parameter(
                "family", detail: "expected one of \(WidgetFamily.allCases.map(\.name).joined(separator: ", "))")
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
            throw .parameter("configuration", detail: "\(error)")
        }
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
