/// Size and place of a widget. The raw values are stored: never renumber them.
package enum WidgetFamily: Int16, NamedValue {
    case systemSmall = 0
    case systemMedium = 1
    case systemLarge = 2
    case systemExtraLarge = 3
    case accessoryCircular = 4
    case accessoryRectangular = 5
    case accessoryInline = 6

    package static let names = NameTable<WidgetFamily>()
}
