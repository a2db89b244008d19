// SPDX-License-Identifier: Apache-2.0

import FreshetService
import SampleProvider
import WidgetModel

/// The people and widgets of a demo: those of the sample apps, or of the kinds of a manifest.
struct DemoWorld: Sendable {
    let widgets: Int
    /// The manifest; nil: the sample apps.
    let manifest: [Manifest]?
    /// Kinds of the manifest with their apps.
    private let kinds: [(app: String, kind: KindDefinition)]
    private let sample: SampleWorld

    /// - Parameters:
    ///   - widgets: number of widgets to place.
    ///   - manifest: apps with at least one kind; nil for the sample apps.
    init(widgets: Int, manifest: [Manifest]? = nil) {
        self.widgets = widgets
        self.manifest = manifest
        kinds = (manifest ?? []).flatMap { app in app.definition.kinds.map { (app.definition.name, $0) } }
        sample = SampleWorld(widgets: widgets)
    }

    /// Apps whose widgets are placed.
    var apps: [String] {
        manifest.map { $0.map(\.definition.name) } ?? [SampleWorld.bank, SampleWorld.rangers, SampleWorld.weather]
    }
    /// The app whose devices are registered: that of the first widget.
    var deviceApp: String { placement(0).app }

    var widgetsPerUser: Int { manifest == nil ? SampleWorld.widgetsPerUser : max(1, kinds.count) }
    var users: Int { max(1, (widgets + widgetsPerUser - 1) / widgetsPerUser) }

    func user(_ index: Int) -> String { sample.user(index) }

    /// Indices of a person's widgets.
    func widgets(of user: Int) -> Range<Int> {
        let first = user * widgetsPerUser
        return first..<max(first, min(first + widgetsPerUser, widgets))
    }

    /// Distinct timelines: one a widget, but for shared kinds, whose widgets all have the same configuration and
    /// environment in a manifest's world.
    var distinctTimelines: Int {
        guard manifest != nil else { return sample.distinctTimelines }
        return kinds.indices.reduce(0) { sum, kind in
            let count = (widgets - kind + kinds.count - 1) / kinds.count
            return sum + (kinds[kind].kind.sharing == .shared ? min(1, count) : count)
        }
    }

    func placement(_ index: Int) -> WidgetPlacement {
        guard manifest != nil else { return sample.placement(index) }
        let (user, number) = index.quotientAndRemainder(dividingBy: kinds.count)
        let (app, kind) = kinds[number]
        return WidgetPlacement(
            app: app, widget: "w\(index)", user: self.user(user), device: "d\(user)", kind: kind.name,
            family: kind.families.first ?? .systemSmall, configuration: .empty,
            environment: WidgetEnvironment(storedLocale: "en-GB", timeZone: "Europe/London"))
    }
}
