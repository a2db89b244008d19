// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import Hummingbird
import JSON
import NIOCore
import WidgetModel

/// A configuration form as an HTML page. It contains the bearer's token for the requests of its script.
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
        let style = String(decoding: PackageResources.form_css, as: UTF8.self) + colors
        let script = String(decoding: PackageResources.form_js, as: UTF8.self)
        let description: HTML = form.description.isEmpty ? "" : "<p>\(form.description)</p>"
        let problems: HTML =
            form.problems.isEmpty
            ? ""
            : "<p class=\"notice\">Some stored values no longer fit. Their defaults are shown instead.</p>"
        return """
            <!DOCTYPE html>
            <html lang="\(form.locale)">
            <head>
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <meta name="color-scheme" content="light dark">
            <title>\(form.displayName)</title>
            <style nonce="\(nonce)">\(raw: style)</style>
            </head>
            <body>
            <header><h1>\(form.displayName)</h1>\(description)</header>
            <main>
            <noscript><p class="notice">Changing the values requires JavaScript. The form shows the current ones.</p></noscript>
            \(problems)
            <form id="form" novalidate data-token="\(token)" data-save="\(savePath ?? "")">
            \(HTML(form.rows.enumerated().map { row($1, $0) }))
            <footer><button type="submit" class="primary">Done</button><p id="status" role="status"></p></footer>
            </form>
            </main>
            <script type="module" nonce="\(nonce)">\(raw: script)</script>
            </body>
            </html>

            """
    }

    /// Rules of the kind's colours. Browsers ignore unknown colours, such as the name of an app's asset.
    private var colors: String {
        var rules = ""
        if let accent = Self.color(form.accentColor) {
            rules += """
                :root { accent-color: \(accent) }
                input[role=switch]:checked { background-color: \(accent) }
                .primary { background-color: \(accent); color: lch(from \(accent) calc((50 - l) * 999) 0 0) }
                .combo [aria-selected=true], :focus-visible { outline-color: \(accent) }

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
        var options: HTML = ""
        if let listed = row.options {
            let json = Self.text(listed.json).replacing("<", with: "\\u003c")
            options = "<script type=\"application/json\">\(raw: json)</script>"
        }
        let problem: HTML = "<p class=\"problem\" id=\"r\(index)-problem\" role=\"alert\"></p>"
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
            <button type="button" class="add" aria-label="Add to \(row.label)">Add</button>\
            <span class="count"></span>\(problem)</fieldset>

            """
    }

    private func severalItem(_ row: ConfigurationForm.Row, _ value: JSONValue?, _ index: Int) -> HTML {
        """
        <li>\(item(row, value, index))<span class="order">\
        <button type="button" class="up" aria-label="Move up">↑</button>\
        <button type="button" class="down" aria-label="Move down">↓</button>\
        <button type="button" class="remove" aria-label="Remove">×</button></span></li>
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
                placeholder="\(row.searchPrompt ?? "Choose")"><span class="list" role="listbox" \
                aria-label="\(row.label)" hidden></span></span>
                """
        case .toggle:
            let isOn: HTML = value == .bool(true) ? " checked" : ""
            return "<input \(names) type=\"checkbox\" role=\"switch\"\(isOn)>"
        case .numberField: return "<input \(names) type=\"number\"\(Self.bounds(row)) value=\"\(text)\">"
        case .stepper:
            return """
                <span class="stepper" role="group" aria-labelledby="r\(index)-label">\
                <button type="button" class="less" aria-label="Decrease">−</button>\
                <input \(names) type="number" inputmode="numeric"\(Self.bounds(row)) value="\(text)">\
                <button type="button" class="more" aria-label="Increase">+</button></span>
                """
        case .slider:
            return """
                <span class="slider"><input \(names) type="range"\(Self.bounds(row)) value="\(text)"\
                \(value == nil ? " data-unset" : "")><output>\(text)</output></span>
                """
        case .locationPicker:
            func coordinate(_ key: String, title: String, limit: String) -> HTML {
                """
                <input aria-label="\(row.label): \(title)" placeholder="\(title)" data-key="\(key)" type="number" \
                step="any" min="-\(limit)" max="\(limit)" value="\(value?[key].map(Self.text) ?? "")">
                """
            }
            return """
                <span class="location"><input \(names) type="text" data-key="display" placeholder="Place" \
                value="\(value?["display"]?.stringValue ?? "")">\(coordinate("latitude", title: "Latitude", limit: "90"))\
                \(coordinate("longitude", title: "Longitude", limit: "180"))</span>
                """
        case .datePicker:
            switch row.parameter.components {
            case .time: return "<input \(names) type=\"time\" value=\"\(text)\">"
            // The script fills it in, in the time zone of the browser.
            case .dateTime: return "<input \(names) type=\"datetime-local\" step=\"any\" data-time=\"\(text)\">"
            case .date, nil:
                let type = text.isEmpty || text.utf8.count == 10 ? "date" : "text"
                return "<input \(names) type=\"\(type)\" value=\"\(text)\">"
            }
        case .urlField: return "<input \(names) type=\"url\" value=\"\(text)\">"
        case .contactPicker: return "<input \(names) type=\"text\" autocomplete=\"off\" value=\"\(text)\">"
        case .textField where row.parameter.isMultiline:
            // The first line end after the tag is not part of the text.
            return "<textarea \(names) rows=\"3\" autocapitalize=\"\(row.capitalization)\">\n\(text)</textarea>"
        case .textField:
            return "<input \(names) type=\"text\" autocapitalize=\"\(row.capitalization)\" value=\"\(text)\">"
        }
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
