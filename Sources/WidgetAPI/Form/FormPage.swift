// SPDX-License-Identifier: Apache-2.0

import Foundation
import HTTPTypes
import Hummingbird
import JSON
import NIOCore
import WidgetModel

/// A configuration form as an HTML page, or as an element of the console's. It contains the bearer's token for the requests of its script.
struct FormPage: Sendable {
    let form: ConfigurationForm
    let optionsPath: @Sendable (String) -> String
    /// Path for saving the configuration; nil for a widget that is not placed, whose page passes it to the host.
    let savePath: String?
    let token: String

    /// The form as a page for a browser, and as JSON for others.
    func response(to request: Request) -> Response {
        if request.headers[.accept]?.lowercased().contains("text/html") ?? false { return page }
        var response = Response(form.json(optionsPath: optionsPath))
        response.headers[.vary] = "Accept"
        return response
    }

    var page: Response {
        let nonce = String.randomID()
        let policy = [
            "default-src 'none'", "script-src 'nonce-\(nonce)'", "style-src 'nonce-\(nonce)'", "connect-src 'self'",
            "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
        ]
        return Response(
            status: .ok,
            headers: [
                .contentType: "text/html; charset=utf-8", .cacheControl: "no-store", .vary: "Accept",
                .init("Content-Security-Policy")!: policy.joined(separator: "; "),
                .init("Referrer-Policy")!: "no-referrer", .init("X-Content-Type-Options")!: "nosniff",
                .init("X-Frame-Options")!: "DENY", .init("Cross-Origin-Resource-Policy")!: "same-origin",
            ],
            body: ResponseBody(byteBuffer: ByteBuffer(string: document(nonce).text)))
    }

    func document(_ nonce: String) -> HTML {
        let style = [PackageResources.page_css, PackageResources.form_css].map { String(decoding: $0, as: UTF8.self) }
        let script = String(decoding: PackageResources.form_js, as: UTF8.self)
        let description: HTML = form.description.isEmpty ? "" : "<p>\(form.description)</p>"
        return """
            <!DOCTYPE html>
            <html lang="\(language)" dir="\(direction)">
            <head>
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <meta name="color-scheme" content="light dark">
            <title>\(form.displayName)</title>
            <style nonce="\(nonce)">\(raw: style.joined() + colors)</style>
            </head>
            <body>
            <header><h1>\(form.displayName)</h1>\(description)</header>
            <main>
            \(element)
            </main>
            <script type="module" nonce="\(nonce)">\(raw: script)</script>
            </body>
            </html>

            """
    }

    /// The form itself, which needs the rules of `form.css` and the script `form.js`.
    var element: HTML {
        let misfits: HTML = form.problems.isEmpty ? "" : "<p class=\"hint\">\(text(.misfits))</p>"
        return """
            <form id="form" lang="\(language)" dir="\(direction)" novalidate data-token="\(token)" \
            data-save="\(savePath ?? "")">
            \(Self.script(FormText.json(in: form.locale)))
            <noscript><p class="hint">\(text(.scriptRequired))</p></noscript>
            \(misfits)
            \(HTML(form.rows.enumerated().map { row($1, $0) }))
            <footer><button type="submit" class="primary">\(text(.done))</button>\
            <div id="status" role="status"></div></footer>
            </form>
            """
    }

    private func text(_ text: FormText) -> String { text(in: form.locale) }

    /// The locale as a language tag.
    private var language: String { form.locale.replacing("_", with: "-") }

    private var direction: String {
        Locale.Language(identifier: language).characterDirection == .rightToLeft ? "rtl" : "ltr"
    }

    /// A value for the script.
    private static func script(_ value: JSONValue) -> HTML {
        "<script type=\"application/json\">\(raw: text(value).replacing("<", with: "\\u003c"))</script>"
    }

    /// Rules of the kind's colours. Browsers ignore unknown colours, such as the name of an app's asset.
    private var colors: String {
        var rules = ""
        if let accent = Self.color(form.accentColor) {
            rules += """
                :root { --accent: \(accent); --on-accent: lch(from \(accent) calc((50 - l) * 999) 0 0) }

                """
        }
        if let background = Self.color(form.backgroundColor) {
            rules += """
                header { background-color: \(background); color: lch(from \(background) calc((50 - l) * 999) 0 0) }

                """
        }
        return rules
    }

    /// A colour in CSS: `#` with digits, or a name.
    private static func color(_ text: String?) -> String? {
        guard let text, (1...32).contains(text.utf8.count) else { return nil }
        let digits = text.utf8.dropFirst()
        let isHex =
            text.utf8.first == UInt8(ascii: "#")
            && digits.allSatisfy { Character(UnicodeScalar($0)).isHexDigit }
        let isName = text.utf8.allSatisfy { (97...122).contains($0 | 0x20) }
        return isHex || isName ? text : nil
    }

    // MARK: Rows

    private func row(_ row: ConfigurationForm.Row, _ index: Int) -> HTML {
        let parameter = row.parameter
        var attributes: HTML = """
             data-parameter="\(parameter.name)" data-control="\(row.control.name)" data-type="\(row.typeName)"
            """
        if row.isSeveral { attributes += " data-several" }
        if let value = row.value, value != .null { attributes += " data-stored=\"\(Self.text(value))\"" }
        if let limit = row.limit, row.isSeveral { attributes += " data-limit=\"\(limit)\"" }
        if let parent = parameter.parent {
            attributes += " data-parent=\"\(parent.name)\""
            if let value = row.parentValue(in: form.rows) { attributes += " data-has-exactly=\"\(value.canonical)\"" }
        }
        if parameter.hasDynamicOptions { attributes += " data-options=\"\(optionsPath(parameter.name))\"" }
        if row.searchPrompt != nil { attributes += " data-search" }
        if !row.isShown { attributes += " hidden" }
        let options = row.options.map { Self.script($0.json) } ?? ""
        let problem: HTML = "<div class=\"problem\" id=\"r\(index)-problem\" role=\"alert\"></div>"
        guard row.isSeveral else {
            return """
                <div class="row"\(attributes)>\(options)<label id="r\(index)-label" for="r\(index)">\(row.label)</label>\
                \(item(row, row.value, index))\(problem)</div>

                """
        }
        let values = row.value?.arrayValue ?? []
        return """
            <fieldset class="row"\(attributes)>\(options)<legend id="r\(index)-label">\(row.label)</legend>\
            <ol>\(HTML(values.map { severalItem(row, $0, index) }))</ol>\
            <template>\(severalItem(row, nil, index))</template>\
            <button type="button" class="add" aria-label="\(FormText.addTo(in: form.locale, label: row.label))">\
            \(text(.add))</button>\
            <span class="count"></span>\(problem)</fieldset>

            """
    }

    private func severalItem(_ row: ConfigurationForm.Row, _ value: JSONValue?, _ index: Int) -> HTML {
        """
        <li>\(item(row, value, index))<span class="order">\
        <button type="button" class="up" aria-label="\(text(.moveUp))">↑</button>\
        <button type="button" class="down" aria-label="\(text(.moveDown))">↓</button>\
        <button type="button" class="remove" aria-label="\(text(.remove))">×</button></span></li>
        """
    }

    /// - Parameter index: place of the row.
    private func item(_ row: ConfigurationForm.Row, _ value: JSONValue?, _ index: Int) -> HTML {
        let label: HTML = row.isSeveral ? "aria-label=\"\(row.label)\"" : "id=\"r\(index)\""
        let names: HTML = "\(label) aria-describedby=\"r\(index)-problem\""
        let text = row.display(value)
        switch row.control {
        case .list:
            return """
                <span class="combo" data-value="\(value.map(Self.text) ?? "")"><input \(names) type="text" role="combobox" \
                autocomplete="off" aria-autocomplete="list" aria-expanded="false" value="\(text)" \
                placeholder="\(row.searchPrompt ?? self.text(.choose))"><span class="list" role="listbox" \
                aria-label="\(row.label)" hidden></span></span>
                """
        case .toggle:
            let isOn: HTML = value == .bool(true) ? " checked" : ""
            return "<input \(names) type=\"checkbox\" role=\"switch\"\(isOn)>"
        case .numberField: return "<input \(names) type=\"number\"\(Self.bounds(row)) value=\"\(text)\">"
        case .stepper:
            return """
                <span class="stepper" role="group" aria-labelledby="r\(index)-label">\
                <button type="button" class="less" aria-label="\(self.text(.decrease))">−</button>\
                <input \(names) type="number" inputmode="numeric"\(Self.bounds(row)) value="\(text)">\
                <button type="button" class="more" aria-label="\(self.text(.increase))">+</button></span>
                """
        case .slider: return slider(row, value, names)
        case .locationPicker: return location(row, value, names)
        case .datePicker:
            let components = row.parameter.components
            // Without components it is a day or a point in time, which is longer.
            let hasTime = components == .dateTime || components == nil && text.utf8.count > 10
            // The script fills it in, in the time zone of the browser.
            if hasTime { return "<input \(names) type=\"datetime-local\" step=\"any\" data-time=\"\(text)\">" }
            let type = components == .time ? "time" : "date"
            return "<input \(names) type=\"\(type)\" value=\"\(text)\">"
        case .urlField: return "<input \(names) type=\"url\" dir=\"ltr\" value=\"\(text)\">"
        case .contactPicker: return "<input \(names) type=\"text\" autocomplete=\"off\" value=\"\(text)\">"
        // A field of one line would remove the line ends.
        case .textField where row.parameter.isMultiline || text.utf8.contains { $0 == 0x0A || $0 == 0x0D }:
            // The first line end after the tag is not part of the text.
            return "<textarea \(names) rows=\"3\" autocapitalize=\"\(row.capitalization)\">\n\(text)</textarea>"
        case .textField:
            return "<input \(names) type=\"text\" autocapitalize=\"\(row.capitalization)\" value=\"\(text)\">"
        }
    }

    private func slider(_ row: ConfigurationForm.Row, _ value: JSONValue?, _ names: HTML) -> HTML {
        // An item of several is removed instead.
        let clear: HTML =
            row.isSeveral
            ? ""
            : """
            <button type="button" class="clear" aria-label="\(FormText.clear(in: form.locale, label: row.label))">×</button>
            """
        let isUnset: HTML = value == nil || value == .null ? " data-unset" : ""
        return """
            <span class="slider"><input \(names) type="range"\(Self.bounds(row)) value="\(row.display(value))"\
            \(isUnset)><output>\(row.display(value))</output>\(clear)</span>
            """
    }

    private func location(_ row: ConfigurationForm.Row, _ value: JSONValue?, _ names: HTML) -> HTML {
        func coordinate(_ key: String, _ title: FormText, limit: Int) -> HTML {
            """
            <label>\(text(title))<input aria-label="\(row.label): \(text(title))" data-key="\(key)" type="number" \
            step="any" min="-\(limit)" max="\(limit)" value="\(value?[key].map(Self.text) ?? "")"></label>
            """
        }
        return """
            <span class="location" role="group" aria-label="\(row.label)">\
            <label>\(text(.place))<input \(names) type="text" data-key="display" \
            value="\(value?["display"]?.stringValue ?? "")"></label>\
            \(coordinate("latitude", .latitude, limit: 90))\(coordinate("longitude", .longitude, limit: 180))</span>
            """
    }

    private static func bounds(_ row: ConfigurationForm.Row) -> HTML {
        var attributes: HTML = ""
        func add(_ name: String, _ value: Double?) {
            guard let number = value.flatMap({ JSONNumber($0) }) else { return }
            attributes += " \(name)=\"\(number.text)\""
        }
        add("min", row.range?.minimum)
        add("max", row.range?.maximum)
        let isDecimal = if case .decimal = row.parameter.type { true } else { false }
        if isDecimal, row.range?.step == nil { attributes += " step=\"any\"" } else { add("step", row.range?.step) }
        return attributes
    }

    private static func text(_ value: JSONValue) -> String { String(decoding: value.encoded, as: UTF8.self) }
}

extension ConfigurationForm.Row {
    fileprivate var typeName: String { range == nil ? parameter.type.name : "number" }

    fileprivate var capitalization: String {
        guard case .string(let capitalization) = parameter.type else { return "none" }
        return capitalization == .allCharacters ? "characters" : capitalization.name
    }

    /// Text of one value.
    fileprivate func display(_ value: JSONValue?) -> String {
        switch value {
        case nil, .null?, .array?, .bool?: return ""
        case .number(let number)?: return number.text
        case .object(let object)?: return object["display"]?.stringValue ?? object["identifier"]?.stringValue ?? ""
        case .string(let text)?:
            let items = options?.sections.flatMap(\.items) ?? []
            return items.first { $0.value == .string(text) }?.display ?? text
        }
    }
}
