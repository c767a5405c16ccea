# SPDX-License-Identifier: Apache-2.0
"""A site of Django in one file, that asks itself for pages: views, templates, forms and a database in memory.

usage: victim-django.py SECONDS

Prints `ready` when the table is there; SECONDS of CPU time later it ends."""
import sys
import time

import django
from django.conf import settings

settings.configure(DEBUG=False, ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="none", USE_TZ=True,
                   DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
                   MIDDLEWARE=["django.middleware.security.SecurityMiddleware",
                               "django.middleware.common.CommonMiddleware",
                               "django.middleware.clickjacking.XFrameOptionsMiddleware"],
                   TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates"}])
django.setup()

from django import forms
from django.db import connection, models
from django.http import HttpResponse, JsonResponse
from django.template import engines
from django.test import Client
from django.urls import path


class Item(models.Model):
    name = models.CharField(max_length=64)
    price = models.DecimalField(max_digits=9, decimal_places=2)
    added = models.DateTimeField(auto_now_add=True)

    class Meta:
        app_label = "shop"


class Order(forms.Form):
    name = forms.CharField(max_length=40)
    count = forms.IntegerField(min_value=1, max_value=99)
    mail = forms.EmailField()


PAGE = engines["django"].from_string("""<table>{% for item in items %}
<tr class="{% cycle 'odd' 'even' %}"><td>{{ item.name|title }}</td><td>{{ item.price|floatformat:2 }}</td>
{% if item.price > 50 %}<td>{{ item.added|date:"Y-m-d H:i" }}</td>{% endif %}</tr>{% endfor %}</table>{{ form.as_p }}""")


def listed(request):
    items = Item.objects.filter(price__gt=10).exclude(name="none").order_by("-price", "name")[:40]
    return HttpResponse(PAGE.render({"items": items, "form": Order()}, request))


def summed(request):
    found = Item.objects.aggregate(models.Sum("price"), models.Count("id"), models.Avg("price"))
    return JsonResponse({key: str(value) for key, value in found.items()})


def ordered(request):
    form = Order(request.POST)
    if not form.is_valid():
        return JsonResponse(form.errors, status=400)
    Item.objects.filter(id=1 + form.cleaned_data["count"]).update(name=form.cleaned_data["name"])
    return JsonResponse(form.cleaned_data)


urlpatterns = [path("items/", listed), path("sum/", summed), path("order/", ordered)]


def main():
    with connection.schema_editor() as editor:
        editor.create_model(Item)
    Item.objects.bulk_create(Item(name=f"item {i}", price=i) for i in range(120))
    print("ready", flush=True)
    client, n, end = Client(), 0, time.process_time() + float(sys.argv[1])
    while time.process_time() < end:
        n += 1
        assert client.get("/items/").status_code == 200
        assert client.get("/sum/").status_code == 200
        client.post("/order/", {"name": f"name {n}", "count": n % 120, "mail": f"a{n}@example.org"})


main()
