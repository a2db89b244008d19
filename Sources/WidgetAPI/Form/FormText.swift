// SPDX-License-Identifier: Apache-2.0

import JSON
import WidgetModel

/// Texts of the configuration form itself, in English. Labels of rows come from the kind's intent.
enum FormText: String, CaseIterable {
    case done = "Done"
    case add = "Add"
    case addTo = "Add to {label}"
    case choose = "Choose"
    case moveUp = "Move up"
    case moveDown = "Move down"
    case remove = "Remove"
    case decrease = "Decrease"
    case increase = "Increase"
    case clear = "Clear {label}"
    case notSet = "Not set"
    case place = "Place"
    case latitude = "Latitude"
    case longitude = "Longitude"
    case count = "{count} of {limit}"
    case loading = "Loading…"
    case nothingFound = "Nothing found"
    case optionsFailed = "The choices cannot be loaded right now. Try again in a moment."
    case saving = "Saving…"
    case saved = "Saved"
    case invalidValue = "This value does not fit."
    case invalid = "Not saved: some values do not fit."
    case failed = "Not saved. Try again in a moment."
    case offline = "The server cannot be reached. Try again in a moment."
    case outdated = "This page is out of date. Open it again."
    case details = "Details"
    case misfits = "Some stored values no longer fit. Their defaults are shown instead."
    case scriptRequired = "Changing the values requires JavaScript. The form shows the current ones."

    /// The text in the language of a locale, or else in English.
    func callAsFunction(in locale: String) -> String { Self.table.text(rawValue, in: locale) }

    func callAsFunction(in locale: String, label: String) -> String {
        self(in: locale).replacing("{label}", with: label)
    }

    /// All texts by the names of their cases.
    static func json(in locale: String) -> JSONValue {
        .object(JSONObject(unique: allCases.map { (key: "\($0)", value: .string($0(in: locale))) }))
    }

    /// Translations, which are found like those of an intent.
    private static let table = IntentDefinition(
        title: "", parameters: [],
        localizations: translations.mapValues { texts in
            Dictionary(texts.map { ($0.key.rawValue, $0.value) }) { $1 }
        })

    /// Translations of all texts by language.
    static let translations: [String: [FormText: String]] = [
        "ar": arabic, "de": german, "es": spanish, "fr": french, "he": hebrew, "it": italian, "ja": japanese,
        "nl": dutch, "pt": portuguese, "zh": chinese,
    ]

    private static let arabic: [FormText: String] = [
        .done: "تم", .add: "إضافة", .addTo: "إضافة إلى {label}", .choose: "اختيار", .moveUp: "نقل لأعلى",
        .moveDown: "نقل لأسفل", .remove: "إزالة", .decrease: "إنقاص", .increase: "زيادة", .clear: "مسح {label}",
        .notSet: "غير محدد", .place: "المكان", .latitude: "خط العرض", .longitude: "خط الطول",
        .count: "{count} من {limit}", .loading: "جارٍ التحميل…", .nothingFound: "لا توجد نتائج",
        .optionsFailed: "لا يمكن تحميل الخيارات الآن. حاول مرة أخرى بعد قليل.",
        .saving: "جارٍ الحفظ…", .saved: "تم الحفظ",
        .invalidValue: "هذه القيمة غير مناسبة.", .invalid: "لم يتم الحفظ: بعض القيم غير مناسبة.",
        .failed: "لم يتم الحفظ. حاول مرة أخرى بعد قليل.",
        .offline: "لا يمكن الوصول إلى الخادم. حاول مرة أخرى بعد قليل.",
        .outdated: "هذه الصفحة قديمة. افتحها من جديد.", .details: "التفاصيل",
        .misfits: "بعض القيم المحفوظة لم تعد مناسبة. تظهر القيم الافتراضية بدلاً منها.",
        .scriptRequired: "يتطلب تغيير القيم JavaScript. يعرض النموذج القيم الحالية.",
    ]

    private static let german: [FormText: String] = [
        .done: "Fertig", .add: "Hinzufügen", .addTo: "Zu {label} hinzufügen", .choose: "Auswählen",
        .moveUp: "Nach oben", .moveDown: "Nach unten", .remove: "Entfernen", .decrease: "Verringern",
        .increase: "Erhöhen", .clear: "{label} leeren", .notSet: "Nicht gesetzt", .place: "Ort",
        .latitude: "Breitengrad", .longitude: "Längengrad", .count: "{count} von {limit}", .loading: "Wird geladen …",
        .nothingFound: "Nichts gefunden",
        .optionsFailed: "Die Auswahl kann gerade nicht geladen werden. Versuche es gleich noch einmal.",
        .saving: "Wird gesichert …", .saved: "Gesichert", .invalidValue: "Dieser Wert passt nicht.",
        .invalid: "Nicht gesichert: Einige Werte passen nicht.",
        .failed: "Nicht gesichert. Versuche es gleich noch einmal.",
        .offline: "Der Server ist nicht erreichbar. Versuche es gleich noch einmal.",
        .outdated: "Diese Seite ist veraltet. Öffne sie erneut.", .details: "Einzelheiten",
        .misfits: "Einige gespeicherte Werte passen nicht mehr. Stattdessen stehen hier die Vorgaben.",
        .scriptRequired: "Zum Ändern der Werte ist JavaScript nötig. Das Formular zeigt die jetzigen.",
    ]

    private static let spanish: [FormText: String] = [
        .done: "Listo", .add: "Añadir", .addTo: "Añadir a {label}", .choose: "Elegir", .moveUp: "Subir",
        .moveDown: "Bajar", .remove: "Quitar", .decrease: "Reducir", .increase: "Aumentar", .clear: "Borrar {label}",
        .notSet: "Sin definir", .place: "Lugar", .latitude: "Latitud", .longitude: "Longitud",
        .count: "{count} de {limit}", .loading: "Cargando…", .nothingFound: "Sin resultados",
        .optionsFailed: "Las opciones no se pueden cargar ahora. Inténtalo de nuevo en un momento.",
        .saving: "Guardando…", .saved: "Guardado", .invalidValue: "Este valor no es válido.",
        .invalid: "No se ha guardado: algunos valores no son válidos.",
        .failed: "No se ha guardado. Inténtalo de nuevo en un momento.",
        .offline: "No se puede acceder al servidor. Inténtalo de nuevo en un momento.",
        .outdated: "Esta página ha caducado. Ábrela de nuevo.", .details: "Detalles",
        .misfits: "Algunos valores guardados ya no son válidos. En su lugar se muestran los predeterminados.",
        .scriptRequired: "Para cambiar los valores se necesita JavaScript. El formulario muestra los actuales.",
    ]

    private static let french: [FormText: String] = [
        .done: "Terminé", .add: "Ajouter", .addTo: "Ajouter à {label}", .choose: "Choisir", .moveUp: "Monter",
        .moveDown: "Descendre", .remove: "Supprimer", .decrease: "Diminuer", .increase: "Augmenter",
        .clear: "Effacer {label}", .notSet: "Non défini", .place: "Lieu", .latitude: "Latitude",
        .longitude: "Longitude", .count: "{count} sur {limit}", .loading: "Chargement…",
        .nothingFound: "Aucun résultat",
        .optionsFailed: "Impossible de charger les choix pour le moment. Réessayez dans un instant.",
        .saving: "Enregistrement…", .saved: "Enregistré", .invalidValue: "Cette valeur ne convient pas.",
        .invalid: "Non enregistré : certaines valeurs ne conviennent pas.",
        .failed: "Non enregistré. Réessayez dans un instant.",
        .offline: "Le serveur est injoignable. Réessayez dans un instant.",
        .outdated: "Cette page n’est plus à jour. Ouvrez-la de nouveau.", .details: "Détails",
        .misfits: "Certaines valeurs enregistrées ne conviennent plus. Les valeurs par défaut sont affichées.",
        .scriptRequired: "Modifier les valeurs nécessite JavaScript. Le formulaire affiche les valeurs actuelles.",
    ]

    private static let hebrew: [FormText: String] = [
        .done: "סיום", .add: "הוספה", .addTo: "הוספה אל {label}", .choose: "בחירה", .moveUp: "העברה למעלה",
        .moveDown: "העברה למטה", .remove: "הסרה", .decrease: "הפחתה", .increase: "הגדלה", .clear: "ניקוי {label}",
        .notSet: "לא הוגדר", .place: "מקום", .latitude: "קו רוחב", .longitude: "קו אורך",
        .count: "{count} מתוך {limit}", .loading: "בטעינה…", .nothingFound: "לא נמצא דבר",
        .optionsFailed: "אי אפשר לטעון כרגע את האפשרויות. כדאי לנסות שוב בעוד רגע.", .saving: "בשמירה…", .saved: "נשמר",
        .invalidValue: "הערך אינו מתאים.", .invalid: "לא נשמר: כמה ערכים אינם מתאימים.",
        .failed: "לא נשמר. כדאי לנסות שוב בעוד רגע.", .offline: "אין גישה לשרת. כדאי לנסות שוב בעוד רגע.",
        .outdated: "הדף אינו עדכני. יש לפתוח אותו מחדש.", .details: "פרטים",
        .misfits: "כמה ערכים שמורים כבר אינם מתאימים. במקומם מוצגים ערכי ברירת המחדל.",
        .scriptRequired: "כדי לשנות את הערכים דרוש JavaScript. הטופס מציג את הערכים הנוכחיים.",
    ]

    private static let italian: [FormText: String] = [
        .done: "Fine", .add: "Aggiungi", .addTo: "Aggiungi a {label}", .choose: "Scegli", .moveUp: "Sposta su",
        .moveDown: "Sposta giù", .remove: "Rimuovi", .decrease: "Diminuisci", .increase: "Aumenta",
        .clear: "Cancella {label}", .notSet: "Non impostato", .place: "Luogo", .latitude: "Latitudine",
        .longitude: "Longitudine", .count: "{count} di {limit}", .loading: "Caricamento…",
        .nothingFound: "Nessun risultato",
        .optionsFailed: "Al momento non è possibile caricare le opzioni. Riprova tra poco.",
        .saving: "Salvataggio…", .saved: "Salvato", .invalidValue: "Questo valore non è valido.",
        .invalid: "Non salvato: alcuni valori non sono validi.", .failed: "Non salvato. Riprova tra poco.",
        .offline: "Il server non è raggiungibile. Riprova tra poco.",
        .outdated: "Questa pagina non è aggiornata. Aprila di nuovo.", .details: "Dettagli",
        .misfits: "Alcuni valori salvati non sono più validi. Al loro posto sono mostrati quelli predefiniti.",
        .scriptRequired: "Per modificare i valori serve JavaScript. Il modulo mostra quelli attuali.",
    ]

    private static let japanese: [FormText: String] = [
        .done: "完了", .add: "追加", .addTo: "{label}に追加", .choose: "選択", .moveUp: "上へ移動", .moveDown: "下へ移動",
        .remove: "削除", .decrease: "減らす", .increase: "増やす", .clear: "{label}を消去", .notSet: "未設定", .place: "場所",
        .latitude: "緯度", .longitude: "経度", .count: "{limit}件中{count}件", .loading: "読み込み中…",
        .nothingFound: "見つかりません", .optionsFailed: "選択肢を読み込めません。しばらくしてからもう一度お試しください。",
        .saving: "保存中…", .saved: "保存しました", .invalidValue: "この値は使用できません。",
        .invalid: "保存されていません。使用できない値があります。",
        .failed: "保存されていません。しばらくしてからもう一度お試しください。",
        .offline: "サーバに接続できません。しばらくしてからもう一度お試しください。",
        .outdated: "このページは古くなっています。もう一度開いてください。", .details: "詳細",
        .misfits: "保存された値の一部が使用できなくなったため、デフォルト値を表示しています。",
        .scriptRequired: "値を変更するにはJavaScriptが必要です。現在の値を表示しています。",
    ]

    private static let dutch: [FormText: String] = [
        .done: "Gereed", .add: "Voeg toe", .addTo: "Voeg toe aan {label}", .choose: "Kies", .moveUp: "Omhoog",
        .moveDown: "Omlaag", .remove: "Verwijder", .decrease: "Verlaag", .increase: "Verhoog", .clear: "Wis {label}",
        .notSet: "Niet ingesteld", .place: "Plaats", .latitude: "Breedtegraad", .longitude: "Lengtegraad",
        .count: "{count} van {limit}", .loading: "Laden…", .nothingFound: "Niets gevonden",
        .optionsFailed: "De keuzes kunnen nu niet worden geladen. Probeer het zo opnieuw.",
        .saving: "Bewaren…", .saved: "Bewaard", .invalidValue: "Deze waarde past niet.",
        .invalid: "Niet bewaard: sommige waarden passen niet.", .failed: "Niet bewaard. Probeer het zo opnieuw.",
        .offline: "De server is niet bereikbaar. Probeer het zo opnieuw.",
        .outdated: "Deze pagina is verouderd. Open deze opnieuw.", .details: "Details",
        .misfits: "Sommige bewaarde waarden passen niet meer. In plaats daarvan staan hier de standaardwaarden.",
        .scriptRequired: "Voor het wijzigen van de waarden is JavaScript nodig. Het formulier toont de huidige.",
    ]

    private static let portuguese: [FormText: String] = [
        .done: "OK", .add: "Adicionar", .addTo: "Adicionar a {label}", .choose: "Escolher", .moveUp: "Mover para cima",
        .moveDown: "Mover para baixo", .remove: "Remover", .decrease: "Diminuir", .increase: "Aumentar",
        .clear: "Limpar {label}", .notSet: "Não definido", .place: "Local", .latitude: "Latitude",
        .longitude: "Longitude", .count: "{count} de {limit}", .loading: "Carregando…",
        .nothingFound: "Nenhum resultado",
        .optionsFailed: "As opções não podem ser carregadas agora. Tente novamente em instantes.",
        .saving: "Salvando…", .saved: "Salvo", .invalidValue: "Este valor não é válido.",
        .invalid: "Não foi salvo: alguns valores não são válidos.",
        .failed: "Não foi salvo. Tente novamente em instantes.",
        .offline: "O servidor não pode ser acessado. Tente novamente em instantes.",
        .outdated: "Esta página está desatualizada. Abra-a novamente.", .details: "Detalhes",
        .misfits: "Alguns valores salvos não são mais válidos. Os valores padrão são mostrados no lugar deles.",
        .scriptRequired: "Para alterar os valores é necessário JavaScript. O formulário mostra os atuais.",
    ]

    private static let chinese: [FormText: String] = [
        .done: "完成", .add: "添加", .addTo: "添加到{label}", .choose: "选择", .moveUp: "上移", .moveDown: "下移",
        .remove: "移除", .decrease: "减少", .increase: "增加", .clear: "清除{label}", .notSet: "未设置", .place: "地点",
        .latitude: "纬度", .longitude: "经度", .count: "{count}/{limit}", .loading: "正在载入…",
        .nothingFound: "未找到结果", .optionsFailed: "目前无法载入选项。请稍后再试。", .saving: "正在存储…", .saved: "已存储",
        .invalidValue: "此值不适用。", .invalid: "未存储：部分值不适用。", .failed: "未存储。请稍后再试。",
        .offline: "无法连接服务器。请稍后再试。", .outdated: "此页面已过期。请重新打开。", .details: "详细信息",
        .misfits: "部分已存储的值不再适用，现显示默认值。", .scriptRequired: "更改值需要 JavaScript。表单显示当前的值。",
    ]
}
