// SPDX-License-Identifier: Apache-2.0

import Charts
import HTTPTypes
package import Hummingbird
import Mustache
import NIOCore
package import WidgetModel

/// A page in the console's layout, with the console's security headers. `freshet preview` uses it too.
package struct ConsolePage: Sendable {
    /// Text of the window's title and of the heading.
    package var title: String
    /// Path below which ``asset(_:to:)`` are served in `assets/`, such as `/console`; empty for the root.
    package var base: String
    var links: [(title: String, path: String, isCurrent: Bool)] = []
    /// Names of style sheets among the assets, besides the console's.
    package var styles: [String] = []
    /// Names of ES modules among the assets.
    package var scripts: [String] = []
    /// Content of the header's end.
    var aside: HTML = ""
    /// Notice before the heading.
    var banner: HTML = ""
    package var body: HTML
    /// Path of the server-sent events that announce changes of the page; nil for a page without live parts.
    package var live: String?

    package init(title: String, base: String, body: HTML) {
        self.title = title
        self.base = base
        self.body = body
    }

    /// No script or style but the assets, no frames, and forms and requests to the own origin only.
    package static let policy = [
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'",
        "base-uri 'none'", "form-action 'self'", "frame-ancestors 'none'",
    ].joined(separator: "; ")

    /// Headers that keep responses out of caches, frames and guesses at their type.
    package static let securityHeaders: HTTPFields = [
        .contentSecurityPolicy: policy, .xContentTypeOptions: "nosniff",
        .init("Referrer-Policy")!: "same-origin", .init("X-Frame-Options")!: "DENY",
        .init("Cross-Origin-Opener-Policy")!: "same-origin", .init("Cross-Origin-Resource-Policy")!: "same-origin",
    ]

    package func response(_ status: HTTPResponse.Status = .ok) -> Response {
        var headers = Self.securityHeaders
        headers[.contentType] = "text/html; charset=utf-8"
        headers[.cacheControl] = "no-store"
        return Response(status: status, headers: headers, body: ResponseBody(byteBuffer: ByteBuffer(string: html.text)))
    }

    package var html: HTML {
        var view: [String: Any] = [
            "title": title, "base": base, "home": base.isEmpty ? "/" : base, "styles": styles,
            "now": "\(Timestamp.now().microseconds / 1_000)",
            "scripts": scripts,
            "hasLinks": !links.isEmpty, "aside": aside, "banner": banner, "body": body,
            "links": links.map { ["title": $0.title, "path": $0.path, "isCurrent": $0.isCurrent] as [String: Any] },
        ]
        view["live"] = live
        return Self.render("shell", view)
    }
}

// MARK: - Assets

extension ConsolePage {
    /// Style, scripts and icon of the console's pages, by name.
    private static let assets: [String: (type: String, bytes: [UInt8])] = [
        "console.css": ("text/css; charset=utf-8", PackageResources.console_css),
        "chart.css": ("text/css; charset=utf-8", Array(Chart.style.utf8)),
        "console.js": ("text/javascript; charset=utf-8", PackageResources.console_js),
        "form.css": ("text/css; charset=utf-8", PackageResources.form_css),
        "form.js": ("text/javascript; charset=utf-8", PackageResources.form_js),
        "icon.svg": ("image/svg+xml", PackageResources.icon_svg),
        TimeAxis.stylesheet: ("text/css; charset=utf-8", PackageResources.time_axis_css),
        TimeAxis.script: ("text/javascript; charset=utf-8", PackageResources.time_axis_js),
    ]

    /// The asset, or 304 for a client that has it.
    package static func asset(_ name: String, to request: Request) -> Response? {
        guard let asset = assets[name] else { return nil }
        let tag = "\"\(ContentHash(of: asset.bytes))\""
        var headers = securityHeaders
        headers[.contentType] = asset.type
        headers[.cacheControl] = "no-cache"
        headers[.eTag] = tag
        guard request.headers[.ifNoneMatch] != tag else { return Response(status: .notModified, headers: headers) }
        return Response(
            status: .ok, headers: headers, body: ResponseBody(byteBuffer: ByteBuffer(bytes: asset.bytes)))
    }
}

// MARK: - Templates

extension ConsolePage {
    /// Texts of the Mustache templates by name. `{{{…}}}` is for values of type ``HTML`` only, such as `{{{time(x)}}}`;
    /// a test compares its names.
    static let templates: [String: [UInt8]] = [
        "action": PackageResources.action_mustache,
        "actions": PackageResources.actions_mustache,
        "banner": PackageResources.banner_mustache,
        "dead-letter": PackageResources.dead_letter_mustache,
        "dead-letters": PackageResources.dead_letters_mustache,
        "dead-letters-end": PackageResources.dead_letters_end_mustache,
        "doctor": PackageResources.doctor_mustache,
        "form": PackageResources.form_mustache,
        "kind": PackageResources.kind_mustache,
        "kinds": PackageResources.kinds_mustache,
        "manifest": PackageResources.manifest_mustache,
        "overview": PackageResources.overview_mustache,
        "problem": PackageResources.problem_mustache,
        "providers": PackageResources.providers_mustache,
        "shell": PackageResources.shell_mustache,
        "sign-in": PackageResources.sign_in_mustache,
        "simulator": PackageResources.simulator_mustache,
        "who": PackageResources.who_mustache,
        "widget": PackageResources.widget_mustache,
        "widgets": PackageResources.widgets_mustache,
    ]

    /// Escapes by Unicode scalars. Mustache's own escaping goes by characters, and misses a quote that a combining
    /// character follows.
    private struct ScalarEscaping: MustacheContentType {
        func escapeText(_ text: String) -> String { HTML.escaped(text) }
    }

    private static let library: MustacheLibrary = {
        MustacheContentTypes.register(ScalarEscaping(), named: "SCALARS")
        var library = MustacheLibrary()
        for (name, text) in templates {
            do {
                let pragma = "{{% CONTENT_TYPE: SCALARS}}\n"
                try library.register(pragma + String(decoding: text, as: UTF8.self), named: name)
            } catch {
                preconditionFailure("the template \(name) cannot be parsed: \(error)")
            }
        }
        return library
    }()

    static func render(_ name: String, _ view: [String: Any]) -> HTML {
        guard let text = library.render(view, withTemplate: name) else {
            preconditionFailure("there is no template \(name)")
        }
        return "\(raw: text)"
    }
}

extension HTML: MustacheCustomRenderable {
    package var renderText: String { text }
    package var isNull: Bool { text.isEmpty }
}
